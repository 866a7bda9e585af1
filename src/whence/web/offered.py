"""The models that the service offers: the bundled ones and those given by `--model`, each loaded when first needed."""

import threading
from collections.abc import Mapping
from typing import Any

from whence._explain import explain
from whence.methods.registry import METHODS, method_class, settings_of
from whence.models.bundled import NAMES, load_any, records
from whence.models.pipeline import Config, Pipeline
from whence.web.refusal import Refusal

DESCRIPTIONS = {
    "sst-bilstm": "Sentiment of a sentence about a film, by a bidirectional LSTM that reads words; the paper's architecture.",
    "sst-bigru": "The same task by a bidirectional GRU that reads words.",
    "sst-char-gru": "The same task by a bidirectional GRU that reads characters.",
}
EXAMPLES = (
    ("neither funny nor suspenseful nor particularly well-drawn.", "A negation that reaches over several words."),
    ("The cast is great, but the story never quite comes together.", "Two halves that disagree."),
    ("It's not a bad film at all, and I laughed more than once.", "A negated negative word."),
    ("This film is horrible beyond words.", "One word decides."),
)


class Offered:
    """The models by name. The first one given is the default; without one it is the first bundled model."""

    def __init__(self, given: Mapping[str, Pipeline] | None = None) -> None:
        self._pipelines = dict(given or {})
        self._records = {name: config for name, config in records().items() if name not in self._pipelines}
        self._lock = threading.Lock()
        self.default = next(iter(self._pipelines), NAMES[0])
        self.is_ready = False

    def names(self) -> list[str]:
        """The names of all text models."""
        return [*self._pipelines, *(name for name in self._records if name not in self._pipelines)]

    def require(self, name: str | None) -> str:
        """The name of the model that was asked for, or of the default one."""
        if name is None:
            return self.default
        if name not in self._pipelines and name not in self._records:
            raise Refusal(404, f"there is no model of that name; known are {', '.join(self.names())}")
        return name

    def reads_characters(self, name: str) -> bool:
        """Whether every character is a token of that model."""
        pipeline = self._pipelines.get(name)
        return (self._records[name]["tokenizer"] if pipeline is None else pipeline.tokenizer.name) == "characters"

    def classes(self, name: str) -> list[str]:
        """The classes of a model."""
        pipeline = self._pipelines.get(name)
        return list(self._records[name]["classes"] if pipeline is None else pipeline.classes)

    def pipeline(self, name: str) -> Pipeline:
        """A model that is known to be offered; loads it when it is asked for the first time."""
        found = self._pipelines.get(name)
        if found is None:
            with self._lock:
                found = self._pipelines.get(name) or self._pipelines.setdefault(name, load_any(name))
        return found

    def warm_up(self) -> None:
        """Load the default model and explain a sentence with it, so that the first user need not wait."""
        explain(self.pipeline(self.default), EXAMPLES[0][0])
        self.is_ready = True

    def described(self) -> list[dict[str, Any]]:
        """What /api/models says about each model."""
        return [_described(name, self._records.get(name), self._pipelines.get(name)) for name in self.names()]


def _described(name: str, config: Config | None, pipeline: Pipeline | None) -> dict[str, Any]:
    if config is None:
        assert pipeline is not None
        classes, tokenizer, record = list(pipeline.classes), pipeline.tokenizer.name, pipeline.record
    else:
        classes, tokenizer, record = config["classes"], config["tokenizer"], config["training"]
    test = record.get("test", {})
    labels = {"five": "five classes", "binary": "binary"}
    return {
        "name": name,
        "kind": "text",
        "reads": "characters" if tokenizer == "characters" else "words",
        "classes": classes,
        "has_encoders": True,
        "description": DESCRIPTIONS.get(name, "A model of your own."),
        "features": [],
        "outputs": [],
        **({"accuracy": {label: test[key] for key, label in labels.items() if key in test}} if test else {}),
    }


def described_methods() -> list[dict[str, Any]]:
    """What /api/models says about each method."""
    return [
        {
            "name": name,
            "label": method_class(name).label,
            "is_signed": method_class(name).is_signed,
            "settings": {each: value for each, value in method_class(name)().settings().items() if each in settings_of(name)},
        }
        for name in METHODS
    ]
