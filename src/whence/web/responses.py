"""What is answered, for the OpenAPI description: the classes here describe the JSON and are not used to make it."""

from typing import Literal

from pydantic import BaseModel


class Failure(BaseModel):
    """What went wrong, in one sentence."""

    error: str


class ExplanationAnswer(BaseModel):
    """A text with the relevance of its tokens; of a method that adds up, relevance and absorbed amounts are the score."""

    text: str
    tokens: list[str]
    spans: list[tuple[int, int]]
    unknown: list[bool]
    relevance: list[float]
    score: float
    scores: dict[str, float]
    predicted: str
    target: str
    versus: str | None = None
    deleted: list[int] | None = None
    method: dict[str, float | str | bool]
    rules: int  # the number of the rules that made it
    absorbed: dict[str, float]
    model: str
    choices: list[str] | None = None
    doubt: str | None = None  # why the signs or amounts should not be believed
    encoders: list[list[float]] | None = None
    errors: list[float] | None = None  # the standard errors of relevance that was sampled


class ExplanationsAnswer(BaseModel):
    """One explanation per text; for the target "all" one per text and class."""

    explanations: list[ExplanationAnswer]


class RandomOrders(BaseModel):
    """The target's probability when words are deleted in random orders."""

    mean: list[float]
    low: list[float]
    high: list[float]
    orders: int


class DeletionAnswer(BaseModel):
    """The target's probability and the predicted class after 0, 1, … deletions."""

    target: str
    tokens: list[str]
    order: list[int]
    steps: int
    probability: list[float]
    predicted: list[str]
    random: RandomOrders


class SeriesAnswer(BaseModel):
    """A series with the relevance of every value."""

    model: str
    features: list[str]
    steps: int
    outputs: dict[str, float]
    output: str
    score: float
    unit: str | None = None
    relevance: list[list[float]]
    absorbed: dict[str, float]
    method: dict[str, float | str | bool]
    reference: list[float]
    choices: list[str] | None = None
    doubt: str | None = None  # why the signs or amounts should not be believed


class ModelAnswer(BaseModel):
    """A model that the service offers."""

    name: str
    kind: Literal["text", "series"]
    reads: Literal["words", "characters"] | None
    classes: list[str]
    accuracy: dict[str, float] | None = None
    has_encoders: bool
    description: str
    features: list[str]
    outputs: list[str]
    example: str | None = None
    unit: str | None = None
    step: str | None = None
    python: list[str]


class DefaultAnswer(BaseModel):
    """The models that are used when a request names none."""

    text: str
    series: str | None


class MethodAnswer(BaseModel):
    """A method, and its settings with their defaults."""

    name: str
    label: str
    is_signed: bool
    adds_up: bool  # whether relevance and absorbed amounts are the score
    settings: dict[str, float | str | bool]


class ExampleAnswer(BaseModel):
    """A text to try."""

    text: str
    note: str


class LimitsAnswer(BaseModel):
    """The most that one request may ask for."""

    texts: int
    tokens: int
    body: int
    steps: int


class ModelsAnswer(BaseModel):
    """What the service offers."""

    version: str
    models: list[ModelAnswer]
    default: DefaultAnswer
    methods: list[MethodAnswer]
    examples: list[ExampleAnswer]
    limits: LimitsAnswer


class Status(BaseModel):
    """Whether the service is there."""

    status: str
