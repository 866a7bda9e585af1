"""The numbers of results.json as CSV files, a line for each; the models of a report are in the same files."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Any, cast

from whence.experiments.results import Results

Line = Sequence[object]
VERDICTS = {True: "yes", False: "no", None: "undecided"}
COLUMNS = {
    "table1.csv": "model target method end rank word relevance in_paper",
    "fig3.csv": "model panel method deleted accuracy low high",
    "fig4.csv": "model method encoder target interval share",
    "findings.csv": "model part claim holds statistic low high detail differs",
}


def tables(every: Sequence[Results]) -> dict[str, bytes]:
    """The CSV files by name."""
    lines = {"table1.csv": _table1, "fig3.csv": _fig3, "fig4.csv": _fig4, "findings.csv": _findings}
    return {
        name: _csv(columns.split(), [(each["model"]["name"], *line) for each in every for line in lines[name](each)])
        for name, columns in COLUMNS.items()
    }


def _csv(columns: Sequence[str], lines: Iterable[Line]) -> bytes:
    made = StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(lines)
    return made.getvalue().encode("utf-8", errors="replace")


def _table1(found: Results) -> Iterable[Line]:
    """The most and least relevant words; whether the paper has a word is known for its target and methods alone."""
    table = cast(Mapping[str, Any], found["table1"])
    by_class = {table["target"]: {name: table[name] for name in found["methods"] if name in table}, **table["other_classes"]}
    for target, by_method in by_class.items():
        for method, words in by_method.items():
            shared = table["overlap"].get(method) if target == table["target"] else None
            for end in ("most", "least"):
                for n, (word, relevance) in enumerate(zip(words[end], words[f"{end}_relevance"], strict=True)):
                    in_paper = "" if shared is None else "yes" if word in shared[end] else "no"
                    yield target, method, end, n + 1, word, relevance, in_paper


def _fig3(found: Results) -> Iterable[Line]:
    figure = found["fig3"]
    for side, curves in (("correct", figure["correct"]), ("wrong", figure["wrong"])):
        for method, curve in curves.items():
            low, high = figure["bands"][side][method]
            for deleted, accuracy in enumerate(curve):
                yield side, method, deleted, accuracy, low[deleted], high[deleted]


def _fig4(found: Results) -> Iterable[Line]:
    for method, parts in found["fig4"].items():
        for encoder, by_class in parts.items():
            for target, shares in by_class.items():
                for n, share in enumerate(shares):
                    yield method, encoder, target, n + 1, share


def _findings(found: Results) -> Iterable[Line]:
    for finding in cast(Sequence[Mapping[str, Any]], found["findings"]):
        low, high = finding["interval"] or ("", "")
        statistic = "" if finding["statistic"] is None else finding["statistic"]
        verdict = VERDICTS[finding["holds"]]
        yield finding["part"], finding["claim"], verdict, statistic, low, high, finding["detail"], finding["differs"]
