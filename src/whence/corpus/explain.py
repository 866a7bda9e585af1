"""The public function `whence.corpus.explain`: every row of a corpus explained into a folder of Parquet files."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from whence._batches import TOKENS
from whence._explain import One, target_of
from whence._explain import explain as explain_texts
from whence.corpus.job import Engine, Job, Progress, run, silent
from whence.corpus.local import local_engine
from whence.corpus.parts import ROWS
from whence.corpus.reading import Columns
from whence.corpus.sources import source_of
from whence.corpus.storage import storage_of
from whence.corpus.texts import TextTask
from whence.errors import InputError
from whence.methods.method import Method
from whence.methods.registry import method_of
from whence.methods.target import Contrast
from whence.models.bundled import load_any
from whence.models.pipeline import Pipeline, fingerprint


def explain(
    pipeline: Pipeline | str | Path,
    source: str | Path,
    out: str | Path,
    *,
    text: str | None = None,
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
    longest: int = TOKENS,
    part_rows: int = ROWS,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Explain every row of a corpus into a folder of Parquet files, and return its manifest.

    `source`: a file (Parquet, CSV, TSV, JSON Lines, text; also .gz and .zst), a folder, a pattern, an address such as s3://…,
    or "-" for standard input. `text`, `id` and `label` name columns; without `text` it is the column "text", or the only one.

    Called again, it goes on where it was stopped; `restart` begins anew. A row that cannot be explained goes to rejects.parquet
    with its reason. `workers`: processes; by default one for every core. `engine`: "local", or "ray" for a cluster, which
    `address` names. `longest`: a text with more tokens is rejected.

        whence.corpus.explain("sst-bilstm", "reviews.csv", "explained", text="review")
    """
    pipeline = load_any(pipeline) if isinstance(pipeline, (str, Path)) else pipeline
    method = method_of(method)
    if isinstance(pipeline, Pipeline):
        wanted = target_of(pipeline, target)
        explain_texts(pipeline, "a film", target=wanted, method=method)  # what fails for every text fails here
    else:
        raise InputError(f"the pipeline is a {type(pipeline).__name__}; give a whence.Pipeline, or a model by name or folder")
    for name, number in {"longest": longest, "part_rows": part_rows}.items():
        if number < 1:
            raise InputError(f"{name} is {number}; give at least 1")
    job = Job(
        source_of(str(source), Columns((text,) if text else (), id, label), format=input_format),
        TextTask(pipeline, wanted, method, label is not None, longest, _device(device)),
        storage_of(str(out)),
        {
            "model": {"name": pipeline.name, "hash": _hash(pipeline), "classes": list(pipeline.classes)},
            "method": {"name": method.name, **method.settings()},
            **_target_names(pipeline, wanted),
            "columns": {"text": text, "id": id, "label": label},
            "settings": {"longest": longest, "part_rows": part_rows},
        },
        {"is_signed": method.is_signed},
        part_rows,
    )
    return run(job, _engine(engine, workers, address), restart=restart, progress=progress)


def _engine(name: str, workers: int | None, address: str | None) -> Engine:
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; give at least 1")
    if name == "local":
        if address is not None:
            raise InputError(f"address {address!r} is of a Ray cluster; give engine='ray' too")
        return local_engine(
            workers or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        )
    if name == "ray":
        from whence.corpus.ray_engine import ray_engine

        return ray_engine(workers, address)
    raise InputError(f"there is no engine {name!r}; there are local and ray")


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
    ]
    return hashlib.sha256(json.dumps(known).encode("utf-8", "surrogatepass")).hexdigest()[:16]
