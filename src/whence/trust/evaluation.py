"""What `evaluate` found, as plain data, as a table, and as files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from whence.models.files import require_folder, write_folder
from whence.render.colour import visible
from whence.trust.contestants import Contestant
from whence.trust.faithfulness import Faithfulness
from whence.trust.results import Plain
from whence.trust.subject import Numbers, Subject

FILES = ("results.json", "leaderboard.csv", "report.html")

if TYPE_CHECKING:
    from whence.trust.choose import Recommendation


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How far each method can be trusted. `results` holds all numbers, as they are in results.json."""

    results: Plain
    contestants: tuple[Contestant, ...]
    subject: Subject | None = None  # what was measured; None if it was the tasks of ground truth alone
    rows: Sequence[int] = ()  # the numbers of the samples, as they were given
    relevance: Mapping[str, list[Numbers]] = field(default_factory=dict[str, list[Numbers]])  # by method, for every sample
    faithfulness: Faithfulness | None = None
    recommended: "Recommendation | None" = None

    def table(self) -> list[dict[str, object]]:
        """The leaderboard: one row of plain numbers for every method, the best first; methods that failed are last."""
        rows = [_row(name, found) for name, found in self.results["methods"].items()]
        return sorted(rows, key=_rank)

    def __str__(self) -> str:
        advice = self.recommended.sentences if self.recommended else ()
        table = [_text(self.table(), self.results), *_sane(self.results["sanity"])] if self.results["methods"] else []
        return visible("\n".join([*table, *_truth(self.results["ground_truth"]), *advice]))

    def __repr__(self) -> str:
        return str(self)

    def save(self, folder: str | Path) -> None:
        """Write report.html, results.json and leaderboard.csv into a folder, completely or not at all."""
        from whence.trust.report import contents

        require_folder(Path(folder), FILES.__contains__)
        write_folder(Path(folder), contents(self), FILES.__contains__)


# The columns of the table: where its number is in the results of a method, and whether lower is better.
COLUMNS: dict[str, tuple[tuple[str | int, ...], bool]] = {
    "separation": (("separation", "value"), False),
    "ms per text": (("seconds_per_text", "value"), True),
    "right @5": (("deletion", "correct", -1), True),
    "right area": (("deletion", "area", "correct", "value"), True),
    "wrong @5": (("deletion", "wrong", -1), False),
    "wrong area": (("deletion", "area", "wrong", "value"), False),
    "insertion": (("insertion", "area", "correct", "value"), False),
    "AOPC": (("aopc", "value"), False),
    "of possible": (("normalised_aopc", "value"), False),
    "comprehensiveness": (("comprehensiveness", "value"), False),
    "sufficiency": (("sufficiency", "value"), True),
    "log-odds": (("log_odds", "value"), False),
    "sparsity": (("sparsity", "value"), False),
}


def _row(name: str, found: Plain) -> dict[str, object]:
    made: dict[str, object] = {"method": name}
    for column, (path, _) in COLUMNS.items():
        value = _at(found, path)
        made[column] = 1000 * value if column == "ms per text" and isinstance(value, float) else value
    made["error"] = found.get("error", "")
    made["flags"] = "; ".join(flag["sentence"] for flag in found.get("flags", []))
    return made


def _at(found: object, path: Sequence[str | int]) -> object:
    """What lies at a path in plain data; None if there is nothing."""
    for key in path:
        if isinstance(found, dict):
            found = cast(Plain, found).get(str(key))
        elif isinstance(found, list) and found and isinstance(key, int):
            found = cast(list[object], found)[key]
        else:
            return None
    return found


def _rank(row: Mapping[str, object]) -> tuple[bool, float]:
    value = row["separation"]
    return bool(row["error"]), -float(value) if isinstance(value, (int, float)) else 0.0


def _text(rows: Sequence[Mapping[str, object]], results: Plain) -> str:
    """The table for people: only columns with numbers, then what speaks against a method."""
    columns = [column for column in COLUMNS if any(row[column] is not None for row in rows)]
    cells = [["method", *(column.replace("per text", "per sample") for column in columns)]] + [
        [str(row["method"]), *(_number(row[column], column) for column in columns)] for row in rows
    ]
    notes = [f"{row['method']}: {row[what]}" for row in rows for what in ("error", "flags") if row[what]]
    left = ", ".join(f"{count} ({reason})" for reason, count in results["left_out"].items())
    count = results["texts"]
    parts = [
        str(results["model"]),
        str(results["explained"]),
        f"{count} sample{'' if count == 1 else 's'}",
        f"left out: {left}" if left else "",
    ]
    head = ", ".join(filter(None, parts))
    return "\n".join([head, *_aligned(cells), *notes])


def _sane(found: Plain) -> list[str]:
    """The similarity of relevance after every change of the model."""
    if not found:
        return []
    head = ["similarity after", *(f"random {layer}" for layer in found["layers"]), "permuted labels", "shift", "noise"]
    rows = [
        [
            name,
            *(
                _number(_at(each, ["value"]), "")
                for each in (*own["weights"], *(own.get(k) for k in ("labels", "shift", "noise")))
            ),
        ]
        for name, own in found["methods"].items()
    ]
    return _aligned([head, *rows])


def _truth(tasks: Plain) -> list[str]:
    """What every method makes of the tasks, in a table of values; those that fail are in brackets, the reasons below."""
    if not tasks:
        return []
    names = list(next(iter(tasks.values()))["methods"])
    rows = [["ground truth", "chance", *names]] + [
        [task, f"{found['methods'][names[0]]['chance']:.2f}", *(_outcome(found["methods"][name]) for name in names)]
        for task, found in tasks.items()
    ]
    failed = [
        f"{name} fails {task}: {each['reason']}"
        for task, found in tasks.items()
        for name, each in found["methods"].items()
        if not each["passes"] and name != "random"
    ]
    return [*_aligned(rows), "1 is the right answer; in brackets: fails.", *failed]


def _outcome(found: Plain) -> str:
    value = "–" if found["value"] is None else f"{found['value']:.2f}"
    return value if found["passes"] else f"({value})"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
    return [
        "  ".join(cell.ljust(widths[0]) if k == 0 else cell.rjust(widths[k]) for k, cell in enumerate(line)).rstrip()
        for line in cells
    ]


def _number(value: object, column: str) -> str:
    if not isinstance(value, (int, float)):
        return "–"
    return f"{value:.2f}" if column in ("ms per text", "log-odds") else f"{value:.3f}"
