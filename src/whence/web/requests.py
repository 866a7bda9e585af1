"""What may be asked: the JSON of each request, checked by pydantic. The OpenAPI description is made from these classes."""

from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import PydanticCustomError

from whence.methods.registry import METHODS
from whence.web import limits
from whence.web.refusal import Refusal


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise PydanticCustomError("method", "is not known; give one of {known}", {"known": ", ".join(METHODS)})
    return name


Text = Annotated[str, Field(description="A text as a person wrote it.")]
MethodName = Annotated[str, AfterValidator(_known_method), Field(json_schema_extra={"enum": [*METHODS]})]
Number = Annotated[float, Field(allow_inf_nan=False)]
Positions = Annotated[
    list[Annotated[StrictInt, Field(ge=0, lt=limits.TOKENS)]], Field(fail_fast=True, max_length=limits.TOKENS)
]
Deletions = Annotated[list[Positions], Field(fail_fast=True, max_length=limits.TEXTS)]
Features = Annotated[list[Annotated[int, Field(ge=0, lt=limits.FEATURES)]], Field(fail_fast=True, max_length=limits.FEATURES)]
ClassName = Annotated[StrictStr, Field(max_length=1_000)]
Index = Annotated[StrictInt, Field(ge=0, lt=2**31)]


class Ask(BaseModel):
    """The fields that every request has."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    model: Annotated[str | None, Field(description="One of the models of /api/models.", max_length=1_000)] = None
    method: Annotated[MethodName, Field(description="One of the methods of /api/models.")] = "lrp"
    epsilon: Annotated[Number | None, Field(description="LRP's stabiliser; other methods ignore it.")] = None
    delta: Annotated[
        Number | None, Field(description="The fraction of the biases that LRP distributes to the inputs; others ignore it.")
    ] = None


class TextAsk(Ask):
    """What requests about texts have in common."""

    target: Annotated[
        ClassName | Index, Field(description='"predicted", "all", or a class by name or number.', union_mode="left_to_right")
    ] = "predicted"
    versus: Annotated[
        ClassName | None, Field(description='Explain the target\'s score minus that of this class, or of the "rest".')
    ] = None


class ExplainRequest(TextAsk):
    """Texts to explain."""

    texts: Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=limits.TEXTS)]
    deleted: Annotated[
        Deletions | None,
        Field(description="For each text the numbers of the tokens to delete: their embedding is set to zero."),
    ] = None
    encoders: Annotated[bool, Field(description="Also give the relevance through each direction.")] = False


class RenderRequest(ExplainRequest):
    """Texts to explain, and the format of the document."""

    format: Annotated[Literal["html", "svg", "latex", "json"], Field(description="The document's format.")] = "html"


class DeletionRequest(TextAsk):
    """A text whose words are deleted one after another."""

    text: Text
    steps: Annotated[
        int | None, Field(ge=0, le=limits.TOKENS, description="How many words to delete; by default all, within the limits.")
    ] = None


class Blank(BaseModel):
    """A stretch of a series that is replaced by the model's reference values."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    start: Annotated[int, Field(ge=0, le=limits.STEPS)]
    end: Annotated[int, Field(ge=0, le=limits.STEPS, description="The first step that is left as it is.")]
    features: Features | None = None


class SeriesRequest(Ask):
    """A series to explain: numbers per step and feature."""

    values: Annotated[
        list[Annotated[list[Number], Field(fail_fast=True, min_length=1, max_length=limits.FEATURES)]],
        Field(fail_fast=True, min_length=1, max_length=limits.STEPS),
    ]
    output: Annotated[
        ClassName | Index | None, Field(description="The output to explain, by name or number.", union_mode="left_to_right")
    ] = None
    blank: Annotated[list[Blank], Field(fail_fast=True, max_length=100)] = Field(default_factory=list[Blank])
    features: Annotated[
        list[ClassName] | None,
        Field(fail_fast=True, max_length=limits.FEATURES, description="Names of the columns, for a model that has none."),
    ] = None


Asked = TypeVar("Asked", bound=Ask)


def parsed(kind: type[Asked], body: bytes) -> Asked:
    """The request in a body; raises a refusal that names the field and never its content."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    # of a field that takes several types, what is wrong with the one it has
    first = next((each for each in found if each["type"] not in ("string_type", "int_type")), found[-1])
    message, place = first["msg"], _place(first["loc"])
    if first["type"] == "json_invalid":
        raise Refusal(400, f"the body is not JSON: {message.removeprefix('Invalid JSON: ')}")
    if first["type"] == "extra_forbidden":
        raise Refusal(422, f"the request has a field that is not known; known are {', '.join(kind.model_fields)}")
    if first["type"] == "missing":
        raise Refusal(422, f"{place} is missing")
    raise Refusal(422, f"{place}: {message[:1].lower()}{message[1:]}")


def _place(steps: tuple[int | str, ...]) -> str:
    """A field's name with the numbers of its items, such as texts[3]."""
    if not steps:
        return "the body"
    name = str(steps[0])
    return name + "".join(f"[{each}]" if isinstance(each, int) else "" for each in steps[1:])
