"""Opens the folder of an explained corpus as a database with the views `texts`, `tokens` and `rejects`.

Everything in this room reads a corpus through `opened`. The database lives in memory, reads the files of the corpus as a query
needs them, and can reach no other file.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from whence.corpus.layout import MANIFEST, PART, REJECTS, rejects_schema, text_schema
from whence.corpus.manifest import FORMAT
from whence.corpus.places import is_address
from whence.corpus.storage import storage_of
from whence.data.arrow import arrow
from whence.errors import DataError, InputError, WhenceError

MEMORY = "2GB"  # what a query may hold; the rest of a large sort goes to temporary files
BATCH = 8192  # rows that are read at a time
AGAIN = "run whence corpus explain again"


@dataclass(frozen=True, eq=False)
class Opened:
    """An explained corpus in a database. A second one, to compare with, has its views in the schema `other`."""

    place: str
    manifest: Mapping[str, Any]
    connection: Any
    columns: frozenset[str]
    notes: tuple[str, ...]  # what the user should know about the corpus
    other: Mapping[str, Any] | None = None  # the manifest of the second corpus

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the model's classes."""
        return tuple(self.manifest["model"].get("classes", ()))

    def number_of(self, name: str) -> int:
        """The number of a class that a text names; one that the manifest does not know is refused."""
        if name not in self.classes:
            raise DataError(
                f"{self.place} is damaged: a text has the class {name!r}, but {MANIFEST} knows {', '.join(self.classes)}; "
                f"{AGAIN}"
            )
        return self.classes.index(name)

    @property
    def is_signed(self) -> bool:
        """Whether relevance can speak against a class."""
        return bool(self.manifest["is_signed"])

    @property
    def has_labels(self) -> bool:
        """Whether the texts have labels."""
        return "label" in self.columns

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Run a statement that gives nothing, such as one that makes a temporary table."""
        with _told(self.place):
            self.connection.execute(sql, list(parameters))

    def table(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """The answer to a query as an Arrow table."""
        with _told(self.place):
            return self._asked(sql, parameters).to_arrow_table()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """The answer to a query that gives few rows."""
        return self.table(sql, parameters).to_pylist()

    def batches(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Any]:
        """The answer to a query in Arrow batches, in order; only a few of them are in memory."""
        return self.reader(sql, parameters)[1]

    def reader(self, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, Iterator[Any]]:
        """The same, and the columns of the answer as an Arrow schema."""
        with _told(self.place):
            found = self._asked(sql, parameters).to_arrow_reader(BATCH)
        return found.schema, _read(self.place, found)

    def _asked(self, sql: str, parameters: Sequence[object]) -> Any:
        return self.connection.sql(sql, params=list(parameters) or None)

    def targets(self) -> list[str]:
        """The classes that were explained, in the model's order."""
        found = {row["target"] for row in self.rows("SELECT DISTINCT target FROM texts")}
        return [name for name in self.classes if name in found] + sorted(found - set(self.classes))


@contextmanager
def opened(out: str | Path, other: str | Path | None = None, *, words: bool = True) -> Generator[Opened]:
    """The corpus in a folder, and maybe a second one to compare it with; `words` requires that it has tokens."""
    engine = duckdb()
    with tempfile.TemporaryDirectory(prefix="whence-") as scratch:
        first = _folder(_here(out, Path(scratch) / "first"))
        second = None if other is None else _folder(_here(other, Path(scratch) / "second"))
        connection = engine.connect(":memory:")
        try:
            connection.execute(f"SET memory_limit = '{MEMORY}'")
            connection.execute(f"SET temp_directory = {_quoted(Path(scratch) / 'spilled')}")
            first.add_views(connection, "main")
            if second is not None:
                connection.execute("CREATE SCHEMA other")
                second.add_views(connection, "other")
            _lock(connection, [*first.files, *(second.files if second else ())])
            for folder in (first, *([second] if second else [])):
                if words:
                    folder.require_tokens()
            notes = (*first.notes(), *(second.notes() if second else ()))
            own, others = _rules(first.manifest), _rules((second or first).manifest)
            if own != others:
                notes = (*notes, f"the amounts were made by different rules (number {own} and {others}): explain one again")
            yield Opened(str(first.place), first.manifest, connection, first.columns, notes, second and second.manifest)
        finally:
            connection.close()


def _rules(manifest: Mapping[str, Any]) -> int:
    """The number of the rules that a corpus was made by; 1 if it does not say so."""
    return manifest.get("rules", 1)


def _here(out: str | Path, folder: Path) -> Path:
    """The folder of a corpus on this machine; one at an address such as s3://… is copied into `folder` first."""
    if not is_address(str(out)):
        return Path(out)
    storage = storage_of(str(out))
    folder.mkdir()
    for name in storage.sizes():
        if name in (MANIFEST, REJECTS) or PART.fullmatch(name):
            with storage.open(name) as source, (folder / name).open("wb") as file:
                shutil.copyfileobj(source, file)
    return folder


def duckdb() -> Any:
    """The module duckdb, or an error that says how to install it."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise DataError("asking a corpus needs duckdb; run: pip install 'whence[corpus]'") from None
    return cast(Any, duckdb)


def _read(place: str, batches: Any) -> Iterator[Any]:
    with _told(place):
        yield from batches


@contextmanager
def _told(place: str) -> Generator[None]:
    """Errors of the database as errors of whence: a file that cannot be read is damaged, the rest is the user's SQL."""
    engine = duckdb()
    try:
        yield
    except engine.OutOfMemoryException as error:
        raise WhenceError(f"this needs more than {MEMORY} of memory: {first_line(error)}") from None
    except (engine.ProgrammingError, engine.DataError, engine.NotSupportedError, engine.PermissionException) as error:
        if ".parquet" in str(error) and not isinstance(error, engine.PermissionException):
            raise DataError(f"{place} has a damaged file: {first_line(error)}; {AGAIN}") from None
        raise InputError(f"the database refuses: {first_line(error)}") from None
    except engine.Error as error:
        raise DataError(f"{place} cannot be read: {first_line(error)}; {AGAIN}") from None


def first_line(error: Exception) -> str:
    """What an error of the database says, without the picture of the place in the SQL."""
    said = " ".join(str(error).split("\n\n")[0].split())
    return said.rstrip(".")


def _lock(connection: Any, files: Sequence[Path]) -> None:
    """Nothing but the files of the corpus can be read from here on, and no setting can be changed."""
    connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, files))}]")
    for setting in ("enable_external_access", "autoinstall_known_extensions", "autoload_known_extensions"):
        connection.execute(f"SET {setting} = false")
    connection.execute("SET lock_configuration = true")


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


@dataclass(frozen=True)
class Folder:
    """The files of one explained corpus."""

    place: Path
    manifest: Mapping[str, Any]
    parts: tuple[Path, ...]
    rejects: tuple[Path, ...]
    columns: frozenset[str]
    explained: int

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that hold rows."""
        return (*self.parts, *self.rejects)

    def add_views(self, connection: Any, schema: str) -> None:
        """The views of this corpus in a schema of the database."""
        texts = self._source(connection, schema, "texts", self.parts, text_schema(label=False))
        rejects = self._source(connection, schema, "rejects", self.rejects, rejects_schema())
        connection.execute(f"CREATE VIEW {schema}.texts AS {self._texts(texts)}")
        connection.execute(f"CREATE VIEW {schema}.rejects AS SELECT * FROM {rejects}")
        if "tokens" in self.columns:
            connection.execute(
                f"CREATE VIEW {schema}.tokens AS SELECT row, unnest(range(len(tokens))) AS position, unnest(tokens) AS token,"
                f" unnest(relevance) AS relevance, target, predicted FROM {schema}.texts"
            )

    def _texts(self, source: str) -> str:
        """A row for every text; if texts were split, for every sentence: `row` counts them, `document` is the input's row."""
        if "sentence" not in self.columns:
            return f"SELECT * FROM {source}"
        number = "CAST(dense_rank() OVER (ORDER BY row, sentence) - 1 AS BIGINT) AS row"
        return f"SELECT * REPLACE ({number}), row AS document FROM {source}"

    def _source(self, connection: Any, schema: str, name: str, files: Sequence[Path], empty: Any) -> str:
        """Where the rows of a view come from: files, or an empty table if there are none."""
        if files:
            return f"read_parquet([{', '.join(map(_quoted, files))}])"
        connection.register(f"no_{name}_{schema}", empty.empty_table())
        return f"no_{name}_{schema}"

    def require_tokens(self) -> None:
        """Refuse a corpus that has no words."""
        if "tokens" not in self.columns:
            raise InputError(f"{self.place} is not a corpus of texts: its parts have no column tokens, so it has no words")

    def notes(self) -> list[str]:
        """What the user should know about it."""
        found: list[str] = []
        if not self.manifest["complete"]:
            found.append(
                f"{self.place} is not complete: these are its first {len(self.parts)} parts;"
                " whence corpus explain goes on with it"
            )
        if not self.explained:
            found.append(f"{self.place} holds no explained text; {_reasons(self.manifest)}")
        return found


def _reasons(manifest: Mapping[str, Any]) -> str:
    """Why rows were rejected."""
    reasons = cast(Mapping[str, int], manifest.get("reasons") or {})
    told = ", ".join(f"{count} × {reason}" for reason, count in reasons.items())
    return f"{manifest.get('rejected', 0)} rows were rejected" + (f": {told}" if told else "")


def _folder(place: Path) -> Folder:
    """The files of a corpus, all of them checked to be whole."""
    manifest = _manifest(place)
    here = {path.name: path.absolute() for path in place.iterdir()}
    names = [str(part["file"]) for part in manifest["parts"]] if manifest["complete"] else list(filter(PART.fullmatch, here))
    for name in names:
        if name not in here:
            raise DataError(f"{place} lacks {name}, which its {MANIFEST} names; {AGAIN}")
    parts = tuple(here[name] for name in sorted(names))
    rejected = (here[REJECTS],) if REJECTS in here else ()  # it is written when all parts are done
    _require_unchanged(place, manifest, here)
    known = [_footer(path) for path in (*parts, *rejected)][: len(parts)]
    columns = frozenset(known[0][0]) if known else frozenset(text_schema(label=False).names)
    return Folder(place, manifest, parts, rejected, columns, sum(rows for _, rows in known))


def _require_unchanged(place: Path, manifest: Mapping[str, Any], here: Mapping[str, Path]) -> None:
    """Refuse a part of which any byte is not as it was written: the database would read a wrong number without a word."""
    for part in manifest["parts"]:
        wanted = part.get("sha256")
        if wanted and part["file"] in here:
            with here[part["file"]].open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != wanted:
                    raise DataError(f"{place / part['file']} is damaged (it is not as it was written); {AGAIN}")


def _footer(path: Path) -> tuple[list[str], int]:
    """The columns and the number of rows of a Parquet file, whose end is lost if it was cut off."""
    pa = arrow()
    try:
        found = pa.parquet.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} is damaged ({first_line(error)}); {AGAIN}") from None
    return list(found.schema.to_arrow_schema().names), found.num_rows


def _manifest(place: Path) -> Mapping[str, Any]:
    """What manifest.json says."""
    path = place / MANIFEST
    if not place.is_dir():
        raise DataError(f"{place} is not a folder; give the folder that whence corpus explain wrote")
    try:
        found: dict[str, Any] = {"complete": False, "is_signed": True, "parts": [], **json.loads(path.read_bytes())}
        version, _, _ = found["format"], found["model"]["hash"], [part["file"] for part in found["parts"]]
    except FileNotFoundError:
        raise DataError(f"{place} is no explained corpus: it has no {MANIFEST}; make one with whence corpus explain") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}: {error}); {AGAIN}") from None
    if version != FORMAT:
        raise DataError(f"{path} has format {version}; this version of whence reads format {FORMAT}")
    return found
