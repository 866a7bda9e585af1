"""The models that the service offers: the bundled ones and those given by `--model`, each loaded when first needed."""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from torch import nn

from whence._explain import explain
from whence.errors import ModelError
from whence.methods.registry import METHODS, method_class
from whence.models.bundled import NAMES, SERIES, load, records
from whence.models.pipeline import Config, Pipeline
from whence.models.saved import UNNAMED
from whence.models.series import SeriesModel
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
    """The models by name. The first one given is the default of its kind; without one it is the first bundled model."""

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        """`given`: the models of `--model`, by what was written there."""
        found = {spec: _named(spec, model) for spec, model in (given or {}).items()}
        pipelines, series = (_by_name(found.values(), kind) for kind in (Pipeline, SeriesModel))
        self._specs = {model.name: spec for spec, model in found.items()}
        self._records = records()
        self._pipelines: dict[str, Pipeline | None] = {**pipelines, **{n: None for n in NAMES if n not in pipelines}}
        self._series: dict[str, SeriesModel | None] = {**series, **{n: None for n in SERIES if n not in series}}
        self._lock = threading.Lock()
        self.default, self.default_series = next(iter(self._pipelines)), next(iter(self._series), None)
        self.is_ready = False
        self.failure = ""  # why it is not

    def require(self, name: str | None) -> str:
        """The name of the text model that was asked for, or of the default one."""
        return _required(name, self.default, self._pipelines, self._series, "texts")

    def require_series(self, name: str | None) -> str:
        """The name of the series model that was asked for, or of the default one."""
        return _required(name, self.default_series, self._series, self._pipelines, "series")

    def reads_characters(self, name: str) -> bool:
        """Whether every character is a token of that model."""
        pipeline = self._pipelines[name]
        return (self._records[name]["tokenizer"] if pipeline is None else pipeline.tokenizer.name) == "characters"

    def classes(self, name: str) -> Sequence[str]:
        """The classes of a model."""
        pipeline = self._pipelines[name]
        return self._records[name]["classes"] if pipeline is None else pipeline.classes

    def pipeline(self, name: str) -> Pipeline:
        """A text model; it is loaded when it is asked for the first time."""
        with self._lock:
            found = self._pipelines[name]
            if found is None:
                found = self._pipelines[name] = cast(Pipeline, load(name))
        return found

    def series(self, name: str) -> SeriesModel:
        """A series model; it is loaded when it is asked for the first time."""
        with self._lock:
            found = self._series[name]
            if found is None:
                found = self._series[name] = cast(SeriesModel, load(name))
        return found

    def warm_up(self) -> None:
        """Load the default model and explain a sentence with it, so that the first user need not wait."""
        try:
            explain(self.pipeline(self.default), EXAMPLES[0][0])
        except Exception:
            self.failure = "the default model cannot be used; the log says why"
            raise
        self.is_ready = True

    def described(self) -> list[dict[str, Any]]:
        """What /api/models says about each model."""
        texts = [_described(name, self._records.get(name), found) for name, found in self._pipelines.items()]
        every = [*texts, *(_described_series(self.series(name)) for name in self._series)]
        return [each | {"python": _python(str(each["kind"]), self._spec(str(each["name"])))} for each in every]

    def _spec(self, name: str) -> str:
        """What makes a model: what was written after `--model`, or the name of a bundled one."""
        return self._specs.get(name, name)


def _named(spec: str, model: object) -> Pipeline | SeriesModel:
    """A model that `--model` gave; one without a name of its own is called as it was given. A bare module reads series."""
    if isinstance(model, nn.Module):
        return SeriesModel(model, name=spec)
    if not isinstance(model, (Pipeline, SeriesModel)):
        raise ModelError(
            f"--model {spec} gave a {type(model).__name__}; it must give a whence.Pipeline, a whence.SeriesModel, or a module "
            "that reads (samples, steps, features)"
        )
    return replace(model, name=spec) if model.name == UNNAMED else model


def _python(kind: str, spec: str) -> list[str]:
    """The lines of Python that make a model, for people who copy what they see."""
    name, (module, _, factory) = "pipeline" if kind == "text" else "model", spec.partition(":")
    if factory.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return [f"from {module} import {factory}", f"{name} = {factory}()"]
    return [f"{name} = whence.load({json.dumps(spec, ensure_ascii=False)})"]


def _by_name(given: Iterable[Pipeline | SeriesModel], kind: type[Any]) -> dict[str, Any]:
    """The models of one kind; two of the same name are refused."""
    found: dict[str, Any] = {}
    for model in given:
        if isinstance(model, kind):
            if model.name in found:
                raise ModelError(f"two models are called {model.name!r}; give each a name of its own")
            found[model.name] = model
    return found


def _required(name: str | None, default: str | None, known: Mapping[str, object], others: Mapping[str, object], of: str) -> str:
    if name is None and default is not None:
        return default
    if name is None or name not in known:
        kind = f"that model reads no {of}" if name in others else "there is no model of that name"
        raise Refusal(404, f"{kind}; of {of} there are {', '.join(known) or 'none'}")
    return name


def _described(name: str, config: Config | None, pipeline: Pipeline | None) -> dict[str, Any]:
    if pipeline is not None:
        classes, tokenizer, record = pipeline.classes, pipeline.tokenizer.name, pipeline.record
    else:
        assert config is not None
        classes, tokenizer, record = config["classes"], config["tokenizer"], config["training"]
    has_encoders = pipeline is None or any(isinstance(m, nn.RNNBase) and m.bidirectional for m in pipeline.module.modules())
    measured, labels = record.get("test"), {"five": "five classes", "binary": "binary"}
    test = cast(Mapping[str, object], measured if isinstance(measured, Mapping) else {})
    accuracy = {label: test[key] for key, label in labels.items() if isinstance(test.get(key), float)}
    return {
        "name": name,
        "kind": "text",
        "reads": "characters" if tokenizer == "characters" else "words",
        "classes": list(classes),
        "has_encoders": has_encoders,
        "description": DESCRIPTIONS.get(name, "A model of your own."),
        "features": [],
        "outputs": [],
        **({"accuracy": accuracy} if accuracy else {}),
    }


def _described_series(model: SeriesModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "kind": "series",
        "reads": None,
        "classes": [],
        "has_encoders": False,
        "description": model.description or "A model of your own.",
        "features": list(model.features),
        "outputs": list(model.outputs),
        "unit": model.unit,
        "step": model.step,
        **({"example": model.example} if model.example else {}),
    }


def described_methods() -> list[dict[str, Any]]:
    """What /api/models says about each method."""
    kinds = [method_class(name) for name in METHODS]
    return [
        {
            "name": kind.name,
            "label": kind.label,
            "is_signed": kind.is_signed,
            "adds_up": kind.adds_up,
            "settings": kind().settings(),
        }
        for kind in kinds
    ]
