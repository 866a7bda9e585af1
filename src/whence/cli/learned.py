"""`whence corpus words` and its neighbours: what a model has learned, read from an explained corpus."""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.streams import note, opened, put, require_place
from whence.errors import InputError, WhenceError

if TYPE_CHECKING:
    from whence.corpus.learned.heatmaps import Shown
    from whence.corpus.learned.query import Answer
    from whence.corpus.learned.tables import Section


class TableFormat(StrEnum):
    """The formats of tables."""

    table = "table"
    csv = "csv"
    json = "json"


class Rank(StrEnum):
    """What words are ranked by."""

    most = "most"
    mean = "mean"


class Compared(StrEnum):
    """The tables of a comparison."""

    words = "words"
    predictions = "predictions"
    texts = "texts"
    all = "all"


class ErrorTable(StrEnum):
    """The tables about errors."""

    confusion = "confusion"
    words = "words"
    shortcuts = "shortcuts"
    label_noise = "label-noise"
    all = "all"


class ExampleFormat(StrEnum):
    """The formats of texts with coloured words."""

    terminal = "terminal"
    html = "html"
    csv = "csv"
    json = "json"


Out = Annotated[str, typer.Argument(metavar="OUT", help="The folder of an explained corpus.")]
Target = Annotated[str | None, typer.Option("--target", "--class", help="One class, by name or number; all by default.")]
Count = Annotated[int, typer.Option(min=1, help="How many are listed.")]
IgnoreCase = Annotated[bool, typer.Option("--ignore-case", help="Count Good and good as one word.")]
Format = Annotated[TableFormat, typer.Option(help="The output format.")]
Output = Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")]


def register(corpus: typer.Typer) -> None:
    """Add the commands to `whence corpus`."""
    for command in (words, position, compare, examples, errors, query, report):
        corpus.command()(command)


def words(
    out: Out,
    target: Target = None,
    count: Count = 10,
    least_count: Annotated[
        int | None, typer.Option(min=1, help="How often a word must occur: 1 by default, 5 for phrases and means.")
    ] = None,
    ngrams: Annotated[str, typer.Option(help="Words in a phrase: 1 to 4, or several such as 1..4.")] = "1",
    by: Annotated[
        Rank, typer.Option(help="Rank words by their most relevant occurrence, as in the paper, or by their mean.")
    ] = Rank.most,
    mixed: Annotated[bool, typer.Option("--mixed", help="List the words whose sign depends on their context instead.")] = False,
    ignore_case: IgnoreCase = False,
    format: Format = TableFormat.table,
    output: Output = None,
) -> None:
    """List the most and the least relevant words of every class."""
    from whence.corpus.learned.mixed import mixed as mixed_words
    from whence.corpus.learned.tables import sections_by
    from whence.corpus.learned.words import words as ranked_words

    _require_place(output)
    if mixed:
        found = mixed_words(
            out, target=target, count=count, least_count=least_count, ngrams=_sizes(ngrams), ignore_case=ignore_case
        )
        shown = sections_by(
            found, ["target"], "{target}: words that speak for it and against it", without=["row_for", "row_against"]
        )
        _show(found, shown, format, output)
        return
    found = ranked_words(
        out, target=target, count=count, least_count=least_count, ngrams=_sizes(ngrams), by=by.value, ignore_case=ignore_case
    )
    shown = sections_by(found, ["target", "end"], "{target}: {end} relevant", without=["rank", "position"])
    _show(found, shown, format, output)


def position(
    out: Out,
    target: Target = None,
    least_words: Annotated[int, typer.Option(min=1, help="Texts of fewer words are left out.")] = 19,
    intervals: Annotated[int, typer.Option(min=1, max=1000, help="The number of equal parts of a text.")] = 10,
    format: Format = TableFormat.table,
    output: Output = None,
) -> None:
    """Show where in the texts relevance lies, class by class."""
    from whence.corpus.learned.position import position as positions
    from whence.corpus.learned.tables import sections_by

    _require_place(output)
    found = positions(out, target=target, least_words=least_words, intervals=intervals)
    _show(found, sections_by(found, ["target", "texts"], "{target}, {texts:,} texts: share of the relevance"), format, output)


def examples(
    out: Out,
    word: Annotated[str, typer.Option(help="A word, or a phrase of up to four.")],
    target: Target = None,
    count: Annotated[int, typer.Option(min=1, help="How many texts are shown on each side.")] = 3,
    ignore_case: IgnoreCase = False,
    format: Annotated[ExampleFormat, typer.Option(help="The output format.")] = ExampleFormat.terminal,
    output: Output = None,
) -> None:
    """Show texts in which a word matters most: for a class, against it, and both."""
    from whence.corpus.learned.examples import SIDES, examples_of, heatmaps_of
    from whence.corpus.learned.heatmaps import Shown
    from whence.corpus.learned.opening import opened
    from whence.corpus.learned.results import notes_of

    _require_place(output)
    with opened(out) as corpus:
        found = examples_of(corpus, word, target=target, count=count, ignore_case=ignore_case)
        texts = heatmaps_of(corpus, found)
    if format in (ExampleFormat.csv, ExampleFormat.json):
        _show(found, [], TableFormat(format.value), output)
        return
    _tell(notes_of(found))
    shown = [
        Shown(f"{row['target']}: where “{word}” {SIDES[row['side']]}", f"row {row['row']}, {row['relevance']:+.3f}", text)
        for row, text in zip(found.to_pylist(), texts, strict=True)
    ]
    _show_texts(shown, f"“{word}” in {len(shown)} texts", format, output)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The folder of an explained corpus.")],
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="Another one, whose rows are the same texts.")] = None,
    slice_a: Annotated[
        str, typer.Option(help="Only the texts for which this SQL condition holds, such as label = 'good'.")
    ] = "",
    slice_b: Annotated[
        str, typer.Option(help="The same for B. Without B: the part of A to compare with; by default, the rest.")
    ] = "",
    target: Target = None,
    count: Count = 10,
    least_count: Annotated[int, typer.Option(min=1, help="How often a word must occur on both sides.")] = 5,
    ignore_case: IgnoreCase = False,
    show: Annotated[Compared, typer.Option(help="One of the tables alone.")] = Compared.all,
    format: Format = TableFormat.table,
    output: Output = None,
) -> None:
    """Compare two models on the same texts, or two parts of one corpus."""
    from whence.corpus.learned.compare import compared, heatmaps_of, require_two
    from whence.corpus.learned.heatmaps import Shown
    from whence.corpus.learned.opening import opened

    _require_place(output)
    _require_one(show, format)
    require_two(b, slice_a)
    with opened(a, b) as corpus:
        found = compared(
            corpus,
            slice_a=slice_a,
            slice_b=slice_b,
            target=target,
            count=count,
            least_count=least_count,
            ignore_case=ignore_case,
        )
        texts = [
            Shown(
                f"row {row['row']}, {row['target']}: rank correlation {row['correlation']:+.3f}",
                f"{side}, {row[f'predicted_{side}']}:",
                text,
            )
            for row in found.texts.to_pylist()
            for side, text in zip("ab", heatmaps_of(corpus, row), strict=True)
        ]
    headings = {"words": "words whose relevance differs", "predictions": "predictions", "texts": ""}
    tables = {name: table for name, table in found._asdict().items() if show in (name, Compared.all)}
    is_drawn = format == TableFormat.table and "texts" in tables
    _show_several(tables, headings, format, output, drawn={"texts": texts} if is_drawn else {})


def errors(
    out: Out,
    count: Annotated[int, typer.Option(min=1, help="How many words and texts are listed of each kind.")] = 5,
    least_count: Annotated[int, typer.Option(min=1, help="In how many wrong texts a suspected shortcut must be.")] = 5,
    confident: Annotated[float, typer.Option(min=0, max=1, help="The probability from which on a label is suspected.")] = 0.9,
    show: Annotated[ErrorTable, typer.Option(help="One of the tables alone.")] = ErrorTable.all,
    format: Format = TableFormat.table,
    output: Output = None,
) -> None:
    """Say which words pull wrong predictions. The corpus must have labels."""
    from whence.corpus.learned.errors import errors as errors_of

    _require_place(output)
    _require_one(show, format)
    found = errors_of(out, count=count, least_count=least_count, confident=confident)
    named = {name.replace("_", "-"): table for name, table in found._asdict().items()}
    headings = {
        "confusion": "labels and predictions",
        "words": "words that pull to wrong predictions",
        "shortcuts": "suspected shortcuts",
        "label-noise": "suspected labels",
    }
    _show_several({name: table for name, table in named.items() if show in (name, ErrorTable.all)}, headings, format, output)


def report(
    out: Out,
    output: Annotated[
        Path | None,
        typer.Option(help="The file of the page, which is replaced; by default report.html, if it is not there yet."),
    ] = None,
    count: Count = 10,
) -> None:
    """Write a page about all of it."""
    from whence.cli.streams import write_file
    from whence.corpus.learned.report import file_of, page

    place = file_of(output)
    require_place(place)
    content, notes = page(out, count=count)
    _tell(notes)
    write_file(place, content.encode("utf-8", errors="replace"))
    print(place)


def query(
    out: Out,
    sql: Annotated[str, typer.Argument(help="One SELECT over the views texts, tokens and rejects.")],
    format: Format = TableFormat.table,
    output: Output = None,
) -> None:
    """Ask a corpus in SQL. Nothing but its files can be read."""
    from whence.corpus.learned.query import streamed

    _require_place(output)
    try:
        with streamed(out, sql) as answer:
            _tell(answer.notes)
            _stream(answer, format, output)
    except (OverflowError, ValueError, TypeError, NotImplementedError) as error:
        if isinstance(error, (WhenceError, OSError)):
            raise
        raise InputError(f"the question or its answer holds what cannot be shown: {error}; cast it to VARCHAR") from None


MOST = 1000  # rows of an answer that are aligned in a table


def _stream(answer: "Answer", format: TableFormat, output: Path | None) -> None:
    """Write an answer as it comes; only a table for people is collected first, and cut if it is long."""
    from whence.corpus.learned.tables import Section, csv_lines, json_lines
    from whence.data.arrow import arrow

    if format == TableFormat.table:
        kept: list[Any] = []
        for batch in answer.batches:
            kept.append(batch)
            if sum(map(len, kept)) > MOST:
                break
        whole = arrow().Table.from_batches(kept, answer.schema)
        _show(whole, [Section("", whole.slice(0, MOST))], format, output)
        if len(whole) > MOST:
            note(f"these are the first {MOST} rows; --format csv gives all")
        return
    is_csv = format == TableFormat.csv
    with opened(output) as stream:
        if is_csv:
            stream.write(_safe(csv_lines(answer.schema.empty_table()), output))
        for batch in answer.batches:
            stream.write(_safe(csv_lines(batch, head=False) if is_csv else json_lines(batch), output))
        stream.flush()


def _sizes(written: str) -> int | tuple[int, int]:
    """How many words a phrase has, as it is written in a command: 2, or 1..4."""
    first, dots, last = written.partition("..")
    if not first.strip().isdecimal() or (dots and not last.strip().isdecimal()):
        raise InputError(f"--ngrams {written}: give the number of words in a phrase, 1 to 4, or several such as 1..4")
    return (int(first), int(last)) if dots else int(first)


def _require_place(output: Path | None) -> None:
    if output is not None:
        require_place(output)


def _require_one(show: Compared | ErrorTable, format: TableFormat) -> None:
    """Refuse a CSV file of several tables."""
    if format == TableFormat.csv and show.value == "all":
        names = ", ".join(each.value for each in type(show) if each.value != "all")
        raise InputError(f"a CSV file holds one table; choose one with --show: {names}")


def _tell(notes: Sequence[str]) -> None:
    for each in notes:
        note(each)


def _show(whole: Any, sections: "Sequence[Section]", format: TableFormat, output: Path | None) -> None:
    """Write a table in the format, and its notes to standard error."""
    from whence.corpus.learned.results import notes_of
    from whence.corpus.learned.tables import aligned, csv_lines, json_lines

    _tell(notes_of(whole))
    if format == TableFormat.table and output is None and sys.stdout.isatty():
        _draw(sections)
        return
    written = {
        TableFormat.table: lambda: aligned(sections),
        TableFormat.csv: lambda: csv_lines(whole),
        TableFormat.json: lambda: json_lines(whole),
    }
    put(_safe(written[format](), output), output)


def _show_several(
    tables: Mapping[str, Any],
    headings: Mapping[str, str],
    format: TableFormat,
    output: Path | None,
    *,
    drawn: "Mapping[str, Sequence[Shown]] | None" = None,
) -> None:
    """Write several tables under headings; those in `drawn` as texts with coloured words, after the others."""
    from whence.corpus.learned.heatmaps import plain, print_on
    from whence.corpus.learned.results import notes_of
    from whence.corpus.learned.tables import Section, aligned, csv_lines, json_lines

    _tell(list(dict.fromkeys(each for table in tables.values() for each in notes_of(table))))
    if format == TableFormat.csv:
        put(_safe("".join(map(csv_lines, tables.values())), output), output)
        return
    if format == TableFormat.json:
        put(_safe("".join(json_lines(table, name=name) for name, table in tables.items()), output), output)
        return
    drawn = drawn or {}
    more = [text for texts in drawn.values() for text in texts]
    sections = [Section(headings[name], table) for name, table in tables.items() if name not in drawn]
    if output is None:
        from rich.console import Console

        if sys.stdout.isatty():
            _draw(sections)
        else:
            print(aligned(sections))
        print_on(Console(highlight=False), more)
        return
    put(f"{aligned(sections)}\n{plain(more)}".encode("utf-8", errors="replace"), output)


def _safe(text: str, output: Path | None) -> bytes:
    """As bytes; on a terminal without control characters."""
    from whence.render.colour import visible

    is_terminal = output is None and sys.stdout.isatty()
    return (visible(text) if is_terminal else text).encode("utf-8", errors="replace")


def _draw(sections: "Sequence[Section]") -> None:
    """Draw tables on a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from whence.corpus.learned.tables import cells_of
    from whence.render.colour import one_line

    console = Console(highlight=False)
    for heading, part in sections:
        if heading:
            console.print(Text(one_line(heading), style="bold"))
        names, cells, numeric = cells_of(part)
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name, is_number in zip(names, numeric, strict=True):
            table.add_column(Text(name), justify="right" if is_number else "left", no_wrap=True, overflow="ellipsis")
        for row in cells:
            table.add_row(*map(Text, row))
        console.print(table)
        console.print()


def _show_texts(shown: "Sequence[Shown]", title: str, format: ExampleFormat, output: Path | None) -> None:
    """Show texts with coloured words under headings, on a terminal or as a page."""
    from whence.corpus.learned.heatmaps import page, plain, print_on

    if format == ExampleFormat.html:
        put(page(shown, title=title).encode("utf-8", errors="replace"), output)
    elif output is not None:
        put(plain(shown).encode("utf-8", errors="replace"), output)
    else:
        from rich.console import Console

        print_on(Console(highlight=False), shown)
