"""Small explained corpora for the tests, written straight from the description of the format."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from whence.corpus.layout import MANIFEST, REJECTS, part_name, rejects_schema, text_schema
from whence.explanation import Explanation

CLASSES = ("negative", "positive")


class Row(NamedTuple):
    """A text of a corpus."""

    row: int
    tokens: Sequence[str]
    relevance: Sequence[float]
    predicted: str = "positive"
    target: str = "positive"
    scores: Sequence[float] = (0.0, 1.0)
    label: str | None = None
    text: str | None = None
    id: str | None = None


def write(
    folder: Path,
    rows: Sequence[Row],
    *,
    classes: Sequence[str] = CLASSES,
    labels: bool = False,
    complete: bool = True,
    is_signed: bool = True,
    target: str = "predicted",
    reasons: Mapping[str, int] | None = None,
    parts: int = 2,
    source: Mapping[str, object] | None = None,
) -> Path:
    """Write a corpus, split into parts."""
    folder.mkdir(parents=True, exist_ok=True)
    reasons = reasons or {}
    told: list[dict[str, Any]] = []
    for number, own in enumerate(np.array_split(np.arange(len(rows)), min(parts, len(rows)) or 1)):
        if not len(own):
            continue
        chosen = [_plain(rows[n], labels) for n in own]
        pq.write_table(pa.Table.from_pylist(chosen, schema=text_schema(label=labels)), folder / part_name(number))
        told.append({"file": part_name(number), "first": chosen[0]["row"], "rows": len(own), "explained": len(own)})
    rejected = [{"row": 1000 + n, "id": None, "reason": reason} for reason, k in reasons.items() for n in range(k)]
    pq.write_table(pa.Table.from_pylist(rejected, schema=rejects_schema()), folder / REJECTS)
    manifest = {
        "format": 1,
        "complete": complete,
        "version": "0",
        "model": {"name": "small", "hash": "0", "classes": list(classes)},
        "method": {"name": "lrp" if is_signed else "sa", "epsilon": 0.001},
        "target": target,
        "versus": "",
        "is_signed": is_signed,
        "rows": len({each.row for each in rows}) + len(rejected),
        "explained": len({each.row for each in rows}),
        "rejected": len(rejected),
        "reasons": dict(reasons),
        "input": source or {},
        "parts": told,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def _plain(row: Row, labels: bool) -> dict[str, Any]:
    text = " ".join(row.tokens) if row.text is None else row.text
    found = {
        "row": row.row,
        "id": row.id,
        "text": text,
        "tokens": list(row.tokens),
        "relevance": list(row.relevance),
        "predicted": row.predicted,
        "target": row.target,
        "score": float(np.float32(sum(row.relevance))),
        "scores": list(row.scores),
        "absorbed": [],
    }
    return found | ({"label": row.label} if labels else {})


def rows_of(explanations: Sequence[Explanation], *, labels: Sequence[str] | None = None) -> list[Row]:
    """Explanations as the rows of a corpus, numbered by text."""
    found: list[Row] = []
    for n, each in enumerate(explanations):
        label = None if labels is None else labels[n]
        scores = tuple(each.scores.values())
        found.append(Row(n, each.tokens, each.relevance, each.predicted, each.target, scores, label, each.text))
    return found


WORDS = "good bad not very film the a plot dull fine".split()


def random_rows(count: int, *, seed: int = 0, longest: int = 25, targets: Sequence[str] = ("positive",)) -> list[Row]:
    """Texts of few words with random relevance, many ties among them; labels are classes by name and by number."""
    random = np.random.default_rng(seed)
    found: list[Row] = []
    for n in range(count):
        length = int(random.integers(1, longest))
        tokens = [str(word) for word in random.choice(WORDS, length)]
        scores = random.normal(size=2)
        predicted = CLASSES[int(scores.argmax())]
        label = str(random.choice(["0", "1", "negative", "POSITIVE"]))
        for target in targets:
            relevance = (random.integers(-8, 9, length) / 8).tolist()
            own = predicted if target == "predicted" else target
            found.append(Row(n, tokens, relevance, predicted, own, scores.tolist(), label))
    return found
