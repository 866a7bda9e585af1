"""report.html: what a model has learned from a corpus, on one self-contained page."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, NamedTuple

from whence.corpus.learned.errors import Errors, errors_of
from whence.corpus.learned.heatmaps import COLUMNS, explanation_of
from whence.corpus.learned.labels import LabelsError
from whence.corpus.learned.mixed import mixed_words
from whence.corpus.learned.opening import Opened, opened
from whence.corpus.learned.position import LEAST_WORDS, positions
from whence.corpus.learned.results import notes_of
from whence.corpus.learned.words import COUNT, ranked
from whence.corpus.places import is_address, shown
from whence.errors import InputError
from whence.explanation import Explanation
from whence.models.files import write_whole
from whence.render import html
from whence.render.colour import AGAINST, FOR, visible
from whence.render.labels import method_label

REPORT = Path("report.html")
NAMED = 3  # files of the input that are named
CLASSES = 12  # of a model with more, those explained most often are shown
EMPTY = {"text": "", "tokens": (), "relevance": (), "scores": (), "score": 0.0, "predicted": "", "target": ""}
LONG = 60  # words of a text that is still shown as an example


def report(out: str | Path, output: str | Path | None = None, *, count: int = COUNT) -> Path:
    """Write a self-contained page about an explained corpus: its words, where relevance lies, examples, errors.

    `output` is replaced if it is there. Without it the file is report.html, which must not be there yet. `count` words are
    listed at either end of every class.
    """
    place = file_of(output)
    content, _ = page(out, count=count)
    write_whole(place, content.encode("utf-8", errors="replace"))
    return place


def file_of(output: str | Path | None) -> Path:
    """The file of the page. One that is there is only replaced if it is named: other commands write a report.html too."""
    if output is None and REPORT.exists():
        raise InputError(
            f"{REPORT} is there already; name the file of this report (--output), which is replaced if it is there"
        )
    return REPORT if output is None else Path(output)


def page(out: str | Path, *, count: int = COUNT) -> tuple[str, tuple[str, ...]]:
    """The page, and notes on the corpus."""
    with opened(out) as corpus:
        return _rendered({"place": _place(out), **_content(corpus, count)}), corpus.notes


def _place(out: str | Path) -> str:
    """The folder of the corpus as the user calls it."""
    return shown(str(out)) if is_address(str(out)) or Path(out).name.strip(".") else Path(out).resolve().name


def _source(manifest: Mapping[str, Any]) -> str:
    """The files from which the corpus was made; of many, the first ones."""
    given: Mapping[str, Any] = manifest.get("input") or {}
    if "standard input" in given:
        return "standard input"
    names = [str(file["name"]) for file in given.get("files") or ()]
    more = f" and {len(names) - NAMED:,} more files" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def signed(value: float, decimals: int) -> str:
    """A number with its sign, as print writes it."""
    return f"{value:+.{decimals}f}".replace("-", "−")


def _rendered(content: dict[str, Any]) -> str:
    try:
        from jinja2 import Environment
        from markupsafe import Markup
    except ModuleNotFoundError:
        raise InputError("the report needs jinja2; run: pip install 'whence[corpus]'") from None

    def harmless(thing: object) -> object:
        return visible(thing) if isinstance(thing, str) and not isinstance(thing, Markup) else thing

    template = (resources("whence.corpus.learned") / "report.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, finalize=harmless, trim_blocks=True, lstrip_blocks=True)

    def heatmap(text: Explanation) -> Markup:
        return Markup(html._heatmap(text))

    return environment.from_string(template).render(heatmap=heatmap, signed=signed, **content)


class Bar(NamedTuple):
    """A row of a bar chart; its width is relative to the longest bar."""

    name: str
    number: int
    share: float
    width: float


class Ranking(NamedTuple):
    """The words of one class at both ends; widths of bars are relative to the most extreme word."""

    target: str
    most: list[dict[str, Any]]
    least: list[dict[str, Any]]
    largest: float


def _content(corpus: Opened, count: int) -> dict[str, Any]:
    """Everything that the page shows."""
    targets = _targets(corpus)
    mixed: list[dict[str, Any]] = mixed_words(corpus, count=count).to_pylist() if corpus.is_signed else []
    mixed = [row for row in mixed if row["target"] in targets]
    rankings, examples = _rankings(corpus, targets, count), _examples(corpus, targets)
    errors = _errors(corpus) if corpus.has_labels else None
    return {
        "source": _source(corpus.manifest),
        "places": _places(corpus, _shown_rows(rankings, mixed, examples, errors or {})),
        "manifest": corpus.manifest,
        "notes": corpus.notes,
        "is_signed": corpus.is_signed,
        "texts": corpus.rows("SELECT count(DISTINCT row) AS n FROM texts")[0]["n"],
        "words": corpus.rows("SELECT coalesce(sum(len(tokens)), 0)::BIGINT AS n FROM texts")[0]["n"],
        "rejects": corpus.rows("SELECT reason, count(*) AS n FROM rejects GROUP BY reason ORDER BY n DESC, reason LIMIT 20"),
        "method": method_label(explanation_of(EMPTY, corpus.manifest)),
        "balance": _balance(corpus),
        "rankings": rankings,
        "hidden": len(corpus.targets()) - len(targets),
        "mixed": mixed,
        "curves": _curves(corpus, targets),
        "least_words": LEAST_WORDS,
        "examples": examples,
        "errors": errors,
        "red": FOR,
        "blue": AGAINST,
        "style": html.STYLE,
    }


def _shown_rows(
    rankings: Sequence[Ranking], mixed: Sequence[Mapping[str, Any]], examples: "Examples", errors: Mapping[str, Any]
) -> Iterable[int]:
    """The rows of all texts of which the page shows something."""
    words = [row for ranking in rankings for row in (*ranking.most, *ranking.least)]
    pulling = [row for _, rows in errors.get("kinds", ()) for row in rows]
    yield from (row["row"] for row in (*words, *pulling, *errors.get("label_noise", ())))
    yield from (row[side] for row in mixed for side in ("row_for", "row_against"))
    yield from (row for _, texts in examples for row, _ in texts)


def _places(corpus: Opened, rows: Iterable[int]) -> dict[int, str]:
    """How the page calls these texts: by their row, and by their id if they have one."""
    found = corpus.rows("SELECT DISTINCT row, id FROM texts WHERE list_contains(?, row)", [sorted(set(rows))])
    ids = {row["row"]: "" if row["id"] is None else f", id {row['id']}" for row in found}
    return {row: f"row {row}{ids[row]}" for row in ids}


def _targets(corpus: Opened) -> list[str]:
    """The classes that are shown, in the model's order."""
    sql = f"SELECT target FROM texts GROUP BY target ORDER BY count(*) DESC, target LIMIT {CLASSES}"
    often = {row["target"] for row in corpus.rows(sql)}
    return [target for target in corpus.targets() if target in often]


def _balance(corpus: Opened) -> list[Bar]:
    """How often every class is predicted; of many classes, the most frequent ones."""
    rows = corpus.rows("SELECT predicted, count(DISTINCT row) AS n FROM texts GROUP BY predicted")
    found = {row["predicted"]: row["n"] for row in rows}
    total, most = max(1, sum(found.values())), max(found.values(), default=1)
    often = sorted(corpus.classes, key=lambda name: -found.get(name, 0))[: 2 * CLASSES]
    counts = {name: found.get(name, 0) for name in corpus.classes if name in often}
    return [Bar(name, number, number / total, number / most) for name, number in counts.items()]


def _rankings(corpus: Opened, targets: Sequence[str], count: int) -> list[Ranking]:
    rows = ranked(corpus, count=count).to_pylist()
    made: list[Ranking] = []
    for target in targets:
        ends = {end: [row for row in rows if (row["target"], row["end"]) == (target, end)] for end in ("most", "least")}
        largest = max((abs(row[end]) for end, own in ends.items() for row in own), default=0.0) or 1.0
        made.append(Ranking(target, ends["most"], ends["least"], largest))
    return made


WIDTH, HEIGHT = 300, 110  # of a curve, in its own units


class Curve(NamedTuple):
    """Where relevance lies, as the points of a line and of the band around it."""

    target: str
    texts: int
    line: str
    band: str
    highest: float
    shares: list[dict[str, Any]]


def _curves(corpus: Opened, targets: Sequence[str]) -> list[Curve]:
    """The share of every interval for every class; all curves have the same scale."""
    rows = [row for row in positions(corpus).to_pylist() if row["target"] in targets]
    top = max((row["high"] for row in rows), default=1.0)

    def points(own: Sequence[dict[str, Any]], key: str) -> list[str]:
        return [f"{WIDTH * (row['start'] + row['end']) / 2:.1f},{HEIGHT * (1 - row[key] / top):.1f}" for row in own]

    made: list[Curve] = []
    for target in targets:
        own = [row for row in rows if row["target"] == target]
        if own:
            band = " ".join([*points(own, "low"), *points(own, "high")[::-1]])
            made.append(Curve(target, own[0]["texts"], " ".join(points(own, "share")), band, top, own))
    return made


Examples = list[tuple[str, list[tuple[int, Explanation]]]]


def _examples(corpus: Opened, targets: Sequence[str]) -> Examples:
    """For every class the texts of moderate length with the highest and the lowest explained score."""
    made: Examples = []
    for target in targets:
        sql = f"SELECT {', '.join(COLUMNS)} FROM texts WHERE target = ? AND len(tokens) BETWEEN 1 AND {LONG}"
        ends = [corpus.rows(f"{sql} ORDER BY score {order}, row LIMIT {n}", [target]) for order, n in (("DESC", 2), ("ASC", 1))]
        rows = {row["row"]: row for row in [*ends[0], *ends[1]]}
        if rows:
            made.append((target, [(number, explanation_of(row, corpus.manifest)) for number, row in rows.items()]))
    return made


def _errors(corpus: Opened) -> dict[str, Any]:
    """What the page says about errors; only why, if the labels are no classes."""
    try:
        return _error_tables(corpus, errors_of(corpus))
    except LabelsError as error:
        return {"unclear": str(error)}


def _error_tables(corpus: Opened, found: Errors) -> dict[str, Any]:
    """The tables of errors as rows, with their notes; words are grouped by the kind of error."""
    notes = [*notes_of(found.confusion), *notes_of(found.words)[1:], *notes_of(found.shortcuts)[1:]]
    kinds: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in found.words.to_pylist():
        kinds.setdefault((row["label"], row["predicted"], row["texts"]), []).append(row)
    counts = {(row["label"], row["predicted"]): row["texts"] for row in found.confusion.to_pylist()}
    named = [name for name in corpus.classes if any(name in pair for pair in counts)]
    return {
        "notes": list(dict.fromkeys(notes)),
        "pull_note": _capital(notes_of(found.words)[0]),
        "counts": counts,
        "most": max(counts.values(), default=1),
        "classes": named[:CLASSES],
        "kinds": list(kinds.items())[:CLASSES],
        "shortcuts": found.shortcuts.to_pylist(),
        "shortcuts_note": _sentence(notes_of(found.shortcuts)[0]),
        "label_noise": found.label_noise.to_pylist(),
        "label_noise_note": _sentence(notes_of(found.label_noise)[0]),
    }


def _sentence(note: str) -> str:
    """A note without the name of its table, which stands above it on the page."""
    return _capital(note.partition(": ")[2])


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
