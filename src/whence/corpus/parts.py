"""The parts of a corpus: stretches of the input that are explained and written one by one, the same on every run."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, cast

from whence.corpus.layout import part_name, read_table, rejects_schema
from whence.corpus.places import shown
from whence.corpus.storage import Storage
from whence.data.arrow import arrow
from whence.data.rows import Row
from whence.errors import WhenceError

ROWS = 8192
CHARACTERS = 2**22  # of all texts of a part, so that its memory is bounded whatever their length
METADATA = b"whence"
REJECTS_AT_ONCE = 10**5
REASONS = 20
ASKED = 64  # rows at the start of a corpus about which the model itself is asked


class Part(NamedTuple):
    """Consecutive rows of the input, the first of them with this number."""

    number: int
    first: int
    rows: Sequence[Row]

    def digest(self) -> str:
        """A hash of the rows, which tells them from changed ones."""
        found = hashlib.sha256()
        for row in self.rows:
            found.update(repr(row).encode("utf-8", "surrogatepass"))
        return found.hexdigest()[:16]


def parts_of(rows: Iterable[Row], *, size: int = ROWS) -> Iterator[Part]:
    """The rows in parts of that many, or of fewer if they are long."""
    number = first = characters = 0
    held: list[Row] = []
    for row in rows:
        held.append(row)
        characters += sum(map(_size, row))
        if len(held) == size or characters >= CHARACTERS:
            yield Part(number, first, held)
            number, first, characters, held = number + 1, first + len(held), 0, []
    if held:
        yield Part(number, first, held)


def _size(value: object) -> int:
    """About how many characters a value is."""
    if isinstance(value, (str, bytes)):
        return len(value)
    inside = list(cast(dict[str, object], value).values()) if isinstance(value, dict) else value
    return sum(map(_size, cast(list[object], inside))) if isinstance(inside, (list, tuple)) else 8


class Rejected(NamedTuple):
    """A row that was not explained, and why."""

    row: int
    id: str | None
    reason: str


class Explained(NamedTuple):
    """What became of the rows of a part: a table of the explained ones, and the others."""

    table: Any
    rejected: Sequence[Rejected]
    asked: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Written:
    """A part that is on the disk."""

    number: int
    first: int
    rows: int
    explained: int
    digest: str  # of the rows it was made from
    job: str  # the digest of the job that made it
    bytes: int = 0
    sha256: str = ""  # of the file
    asked: Mapping[str, object] | None = None  # what the model itself says of the first rows, see `asked_about`

    def entry(self) -> dict[str, object]:
        """Its entry in the manifest."""
        return {
            "file": part_name(self.number),
            "first": self.first,
            "rows": self.rows,
            "explained": self.explained,
            "rejected": self.rows - self.explained,
            "digest": self.digest,
            "bytes": self.bytes,
            "sha256": self.sha256,
        }


def write_part(storage: Storage, part: Part, found: Explained, job: str, facts: Mapping[str, object]) -> Written:
    """Write what became of all rows of a part as one file: the explained ones as its table, the others in its metadata."""
    rows = len(part.rows)
    written = Written(part.number, part.first, rows, rows - len(found.rejected), part.digest(), job, asked=found.asked)
    own = {key: value for key, value in asdict(written).items() if key not in ("bytes", "sha256")}
    kept = json.dumps({**facts, "part": own, "rejected": found.rejected})
    content = parquet_bytes(found.table.replace_schema_metadata({METADATA: kept}))
    storage.write(part_name(part.number), content)
    return replace(written, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def asked_about(doubts: Mapping[int, Sequence[str | None]]) -> dict[str, object]:
    """What the model says of some rows: how many it was asked about, in how many it contradicts the signs, and the first."""
    found = {row: next(filter(None, own)) for row, own in sorted(doubts.items()) if any(own)}
    first = [{"row": row, "doubt": doubt} for row, doubt in found.items()][:1]
    return {"rows": len(doubts), "in_doubt": len(found), **({"first": first[0]} if first else {})}


def parquet_bytes(table: Any) -> bytes:
    """A table as a Parquet file."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return sink.getvalue().to_pybytes()


class Kept(NamedTuple):
    """What a part on the disk says of itself, and its rejected rows."""

    written: Written
    rejected: list[Rejected]


def read_written(storage: Storage, number: int) -> Kept | None:
    """What a part on the disk says of itself; None if any byte of it is damaged."""
    pa = arrow()
    try:
        with storage.open(part_name(number)) as file:
            content = file.read()
        table = read_table(pa.BufferReader(content))
        kept = json.loads(table.schema.metadata[METADATA])
        written = Written(**kept["part"], bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        is_whole = written.number == number and table.num_rows >= written.explained
        return Kept(written, [Rejected(*each) for each in kept["rejected"]]) if is_whole else None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def rejects_of(storage: Storage, parts: Iterable[Written]) -> tuple[bytes, dict[str, int]]:
    """The rejected rows of all parts as a Parquet file, and how often the most frequent reasons occur.

    Reasons that differ only in their numbers are one, told by the first of them.
    """
    pa, reasons, examples = arrow(), Counter[str](), dict[str, str]()
    sink = pa.BufferOutputStream()
    with pa.parquet.ParquetWriter(sink, rejects_schema(), compression="zstd") as writer:
        held: list[Rejected] = []
        for part in parts:
            if part.explained < part.rows:
                found = read_written(storage, part.number)
                if found is None or found.written != part:
                    raise WhenceError(f"{part_name(part.number)} in {shown(storage.place)} was changed by somebody; run again")
                held += found.rejected
                for each in found.rejected:
                    kind = re.sub(r"\d[\d,]*", "N", each.reason)
                    reasons[kind] += 1
                    examples.setdefault(kind, each.reason if len(each.reason) <= 200 else f"{each.reason[:200]}…")
            if len(held) > REJECTS_AT_ONCE:
                writer.write_table(_rejects(held))
                held = []
        writer.write_table(_rejects(held))
    return sink.getvalue().to_pybytes(), {examples[kind]: count for kind, count in reasons.most_common(REASONS)}


def _rejects(rejected: Sequence[Rejected]) -> Any:
    return arrow().Table.from_pylist([each._asdict() for each in rejected], schema=rejects_schema())
