"""The texts around words: where tokens stand in a text, and a short piece of it for a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whence.corpus.learned.opening import Opened

AROUND = 32  # characters that are shown on either side


def spans_of(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Where the tokens stand in the text: each is searched from the end of the one before it."""
    found: list[tuple[int, int]] = []
    place = 0
    for token in tokens:
        start = text.find(token, place)
        start = place if start < 0 else start
        place = start + len(token) if text.startswith(token, start) else start
        found.append((start, place))
    return found


def snippet(text: str, span: tuple[int, int]) -> str:
    """The text around a span, cut at spaces where there are some."""
    start, end = max(0, span[0] - AROUND), min(len(text), span[1] + AROUND)
    before, after = text[start : span[0]], text[span[1] : end]
    if start and " " in before.strip():
        before = before[before.index(" ") + 1 :]
    if end < len(text) and " " in after.strip():
        after = after[: after.rindex(" ")]
    short = f"{'…' if start else ''}{before}{text[span[0] : span[1]]}{after}{'…' if end < len(text) else ''}"
    return " ".join(short.split())


def add_texts(corpus: Opened, places: Sequence[Mapping[str, Any]], columns: Iterable[str] = ("text", "tokens")) -> list[Any]:
    """For every place (row and target) the named columns of its text, in the same order."""
    if not places:
        return []
    wanted = sorted({(int(each["row"]), str(each["target"])) for each in places})
    listed = ", ".join(f"({row}, ?)" for row, _ in wanted)
    chosen = ", ".join(f"texts.{name}" for name in columns)
    rows = corpus.rows(
        f"SELECT texts.row, texts.target, {chosen} FROM texts"
        f" SEMI JOIN (VALUES {listed}) AS wanted(row, target) ON texts.row = wanted.row AND texts.target = wanted.target",
        [target for _, target in wanted],
    )
    by_place = {(row["row"], row["target"]): row for row in rows}
    return [by_place[each["row"], each["target"]] for each in places]


def snippets(corpus: Opened, places: Sequence[Mapping[str, Any]]) -> list[str]:
    """The text around every place: its row, target, position, and how many tokens it has (1 where `size` is not there)."""
    found: list[str] = []
    for place, text in zip(places, add_texts(corpus, places), strict=True):
        spans = spans_of(text["text"], text["tokens"])
        last = int(place["position"]) + int(place.get("size", 1)) - 1
        found.append(snippet(text["text"], (spans[int(place["position"])][0], spans[last][1])))
    return found
