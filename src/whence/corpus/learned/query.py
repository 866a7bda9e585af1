"""SQL over an explained corpus: one SELECT, which can read nothing else and change nothing."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.corpus.learned.opening import Opened, duckdb, first_line, opened
from whence.corpus.learned.results import noted
from whence.errors import InputError


def query(out: str | Path, sql: str) -> Any:
    """The answer to a query as an Arrow table.

    The views are `texts` (a row a text), `tokens` (a row a word: row, position, token, relevance, target, predicted) and
    `rejects`.

        whence.corpus.query("explained", "SELECT token, avg(relevance) FROM tokens GROUP BY token")
    """
    with opened(out, words=False) as corpus:
        require_select(corpus, sql)
        return noted(corpus.table(sql), corpus.notes)


@dataclass(frozen=True)
class Answer:
    """An answer that is read as it is written: its columns, its batches, and notes on the corpus."""

    schema: Any
    batches: Iterator[Any]
    notes: tuple[str, ...]


@contextmanager
def streamed(out: str | Path, sql: str) -> Generator[Answer]:
    """The answer for one pass over its batches; it may be larger than memory."""
    with opened(out, words=False) as corpus:
        require_select(corpus, sql)
        yield Answer(*corpus.reader(sql), corpus.notes)


def require_select(corpus: Opened, sql: str) -> None:
    """Refuse everything but one SELECT: other statements could write over the files that may be read."""
    engine = duckdb()
    try:
        statements = corpus.connection.extract_statements(sql)
    except engine.Error as error:
        raise InputError(f"the database refuses: {first_line(error)}") from None
    kinds = [statement.type.name for statement in statements]
    if kinds != ["SELECT"]:
        given = " and ".join(kinds) or "nothing"
        raise InputError(f"one SELECT is needed, and {given} was given; views: texts, tokens, rejects")
