"""The public function `whence.corpus.explain`: every row of a corpus explained into a folder of Parquet files."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from whence._batches import TOKENS
from whence._explain import One, target_of
from whence._explain import explain as explain_texts
from whence.corpus.job import Engine, Job, Progress, Task, run, silent
from whence.corpus.local import local_engine
from whence.corpus.parts import ROWS
from whence.corpus.series import SeriesTask
from whence.corpus.sources import source_of
from whence.corpus.storage import storage_of
from whence.corpus.texts import TextTask
from whence.data.rows import SUFFIXES, Columns, spelling_of
from whence.errors import InputError, TargetError
from whence.methods.method import Method
from whence.methods.registry import method_of
from whence.methods.target import Contrast
from whence.models.bundled import load
from whence.models.pipeline import Pipeline, fingerprint, weights_hash
from whence.models.series import SeriesModel
from whence.text.padded import PaddedTokenizer


def explain(
    pipeline: Pipeline | SeriesModel | nn.Module | str | Path,
    source: str | Path,
    out: str | Path,
    *,
    text: str | None = None,
    values: Sequence[str] = (),
    id: str | None = None,
    label: str | None = None,
    target: One = "predicted",
    method: Method | str | None = None,
    device: str | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    restart: bool = False,
    input_format: str | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    split: str | None = None,
    longest: int = TOKENS,
    part_rows: int = ROWS,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Explain every row of a corpus into a folder of Parquet files, and return its manifest.

    `source`: a file (Parquet, CSV, TSV, JSON Lines, text; also .gz and .zst), a folder, a pattern, an address such as s3://…,
    or "-" for standard input. `text`, `id` and `label` name columns; without `text` it is the column "text", or the only one.

    A model of series reads a column of rows of numbers, or the columns `values`, one for every feature; by default those that
    the model names. `target` is then the output.

    Called again, it goes on where it was stopped; `restart` begins anew. A row that cannot be explained goes to rejects.parquet
    with its reason. `workers`: processes; by default one for every core. `engine`: "local", or "ray" for a cluster, which
    `address` names. `longest`: a text with more tokens is rejected. `split="sentences"` explains every sentence by itself.

        whence.corpus.explain("sst-bilstm", "reviews.csv", "explained", text="review")
    """
    for name, place in {"source": source, "out": out}.items():
        if not isinstance(place, (str, Path)) or not str(place) or "\0" in str(place):
            raise InputError(f"{name} is {place!r}; give the name of a file or folder; whence.explain takes texts")
    for name, given in {"text": text, "id": id, "label": label}.items():
        if given is not None and not isinstance(given, str):
            raise InputError(f"{name} is {given!r}; give the name of a column")
    if input_format not in (None, *set(SUFFIXES.values())):
        raise InputError(f"input_format is {input_format!r}; there are {', '.join(dict.fromkeys(SUFFIXES.values()))}")
    model = load(pipeline) if isinstance(pipeline, (str, Path)) else pipeline
    for name, number in {"longest": longest, "part_rows": part_rows, "workers": 1 if workers is None else workers}.items():
        if type(number) is not int or number < 1:
            raise InputError(f"{name} is {number!r}; give a whole number, at least 1")
    if split not in (None, "sentences"):
        raise InputError(f"split is {split!r}; texts can be split into 'sentences'")
    settings = Settings(id, label, method_of(method), longest, device if engine == "ray" else _device(device), split)
    if isinstance(model, Pipeline):
        if values:
            raise InputError(f"values names columns of numbers, but {model.name} reads texts; name their column by text")
        plan = _texts(model, text, target, settings)
    else:
        plan = _series(_series_model(model), text, values, target, settings)
    chosen = {"split": split, "encoding": encoding, "delimiter": delimiter, "input_format": input_format}
    known = {"longest": longest, "part_rows": part_rows, **{name: value for name, value in chosen.items() if value}}
    job = Job(
        source_of(str(source), plan.columns, format=input_format, spelling=spelling_of(encoding, delimiter)),
        plan.task,
        storage_of(str(out)),
        {**plan.identity, "settings": known},
        plan.facts,
        part_rows,
    )
    return run(job, _engine(engine, workers, address), restart=restart, progress=progress)


class Settings(NamedTuple):
    """What is the same for texts and series."""

    id: str | None
    label: str | None
    method: Method
    longest: int
    device: str | None
    split: str | None


class Plan(NamedTuple):
    """What is done with the rows: the columns that are read, the task, what identifies it, and what else the manifest says."""

    columns: Columns
    task: Task
    identity: Mapping[str, object]
    facts: Mapping[str, object]


def _texts(pipeline: Pipeline, text: str | None, target: One, settings: Settings) -> Plan:
    method, wanted = settings.method, target_of(pipeline, target)
    explain_texts(pipeline, "a film", target=wanted, method=method)  # what fails for every text fails here
    model = {"name": pipeline.name, "hash": _hash(pipeline), "classes": list(pipeline.classes)}
    identity = {
        "model": model,
        "method": {"name": method.name, **method.settings()},
        **_target_names(pipeline, wanted),
        "columns": {"text": text, "id": settings.id, "label": settings.label},
    }
    return Plan(
        Columns((text,) if text else (), settings.id, settings.label),
        TextTask(pipeline, wanted, method, settings.label is not None, settings.longest, settings.device, settings.split),
        identity,
        {"is_signed": method.is_signed},
    )


def _series_model(given: object) -> SeriesModel:
    if isinstance(given, nn.Module):
        return SeriesModel(given)
    if not isinstance(given, SeriesModel):
        raise InputError(f"the model is a {type(given).__name__}; give a whence.Pipeline or a whence.SeriesModel, or its name")
    return given


def _series(model: SeriesModel, text: str | None, values: Sequence[str], target: One, settings: Settings) -> Plan:
    columns = tuple(values) or ((text,) if text else model.features)
    method, output = settings.method, 0 if target == "predicted" else target
    if isinstance(output, Contrast):
        raise TargetError(f"{output!r}: an output of a series model is explained by itself; name one of {list(model.outputs)}")
    if not columns:
        raise InputError("the model does not name its features; name the columns of the series by values")
    if settings.split:
        raise InputError(f"split is {settings.split!r}, but {model.name} reads series, which have no sentences")
    if model.outputs and output not in (*model.outputs, *range(len(model.outputs))):
        raise TargetError(f"there is no output {output!r}; {model.name} gives {', '.join(model.outputs)}")
    identity = {
        "model": {"name": model.name, "hash": weights_hash(model.module), "features": list(model.features)},
        "method": {"name": method.name, **method.settings()},
        "target": model.outputs[output] if isinstance(output, int) and model.outputs else str(output),
        "versus": "",
        "columns": {"values": list(columns), "id": settings.id, "label": settings.label},
    }
    return Plan(
        Columns(columns, settings.id, settings.label, "--values"),
        SeriesTask(model, output, method, len(columns), settings.label is not None, settings.longest, settings.device),
        identity,
        {"is_signed": method.is_signed, "outputs": list(model.outputs), "unit": model.unit},
    )


def _engine(name: str, workers: int | None, address: str | None) -> Engine:
    if name == "local":
        if address is not None:
            raise InputError(f"address {address!r} is of a Ray cluster; give engine='ray' too")
        return local_engine(workers or _cores())
    if name == "ray":
        from whence.corpus.ray_engine import ray_engine

        return ray_engine(workers, address)
    raise InputError(f"there is no engine {name!r}; there are local and ray")


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _device(name: str | None) -> str | None:
    """A device that is there."""
    if name is None:
        return None
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from None
    return name


def _target_names(pipeline: Pipeline, target: One) -> dict[str, str]:
    """The target and what it is compared with, as people call them."""

    def name(one: object) -> str:
        return pipeline.classes[one] if isinstance(one, int) else str(one)

    if isinstance(target, Contrast):
        return {"target": name(target.one), "versus": name(target.other)}
    return {"target": name(target), "versus": ""}


def _hash(pipeline: Pipeline) -> str:
    """A hash of all that a text's scores depend on."""
    words: Sequence[str] = pipeline.vocabulary.tokens
    known = [
        fingerprint(pipeline),
        type(pipeline.module).__name__,
        pipeline.tokenizer.name,
        list(pipeline.classes),
        list(words),
        *([pipeline.tokenizer.settings()] if isinstance(pipeline.tokenizer, PaddedTokenizer) else []),
    ]
    return hashlib.sha256(json.dumps(known).encode("utf-8", "surrogatepass")).hexdigest()[:16]
