"""The job of explaining a corpus: what is done already stays, the rest is done, and every row is accounted for."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from whence import __version__
from whence.corpus.layout import MANIFEST, PART, REJECTS, part_name, read_table
from whence.corpus.manifest import job_digest, read_manifest, require_same, write_manifest
from whence.corpus.parts import ROWS, Explained, Part, Written, parts_of, read_written, rejects_of, write_part
from whence.corpus.places import shown
from whence.corpus.sources import Source
from whence.corpus.storage import Local, Storage
from whence.data.arrow import arrow
from whence.errors import DataError, InputError, WhenceError
from whence.revision import RULES

SECONDS = 10.0  # between two writings of the manifest; the parts themselves say that they are done
Progress = Callable[[int, int, int | None], None]  # rows done, bytes of the input taken, bytes in all


def silent(rows: int, read: int, size: int | None) -> None:
    """No progress is shown."""


class Task(Protocol):
    """How the rows of a part are explained."""

    def start(self) -> None:
        """Get ready, once in every process."""
        ...

    def explain(self, part: Part) -> Explained:
        """What becomes of the rows of a part."""
        ...


@dataclass(frozen=True)
class Work:
    """Explains a part and writes it; it runs in any process."""

    task: Task
    storage: Storage
    job: str
    facts: Mapping[str, object]

    def start(self) -> None:
        """Get ready, once in every process."""
        self.task.start()

    def __call__(self, part: Part) -> Written:
        return write_part(self.storage, part, self.task.explain(part), self.job, self.facts)


@dataclass(frozen=True)
class Job:
    """A corpus to be explained: the input, the task, and what the manifest says of both."""

    source: Source
    task: Task
    storage: Storage
    identity: Mapping[str, object]  # of the task: model, method, target
    facts: Mapping[str, object]
    part_rows: int = ROWS


Engine = Callable[[Work, Iterable[Part]], Generator[Written]]


def run(job: Job, engine: Engine, *, restart: bool = False, progress: Progress = silent) -> dict[str, Any]:
    """Explain what is not explained yet, and return the manifest."""
    _require_apart(job)
    identity = {"version": __version__, "rules": RULES, **job.identity, "input": job.source.identity()}
    with job.storage.locked():
        manifest = None if restart else read_manifest(job.storage)
        if manifest is not None and (manifest["parts"] or any(map(PART.fullmatch, job.storage.sizes()))):
            require_same(job.storage, manifest, identity)
        done = _begun(job, identity, manifest, restart=restart)
        is_complete = manifest is not None and manifest["complete"] and len(done) == len(manifest["parts"])
        if manifest is not None and is_complete and job.source.files and _has_rejects(job.storage, manifest):
            return manifest
        _work(job, engine, identity, done, progress, is_complete=is_complete)
        return _completed(job, identity, done)


def _completed(job: Job, identity: Mapping[str, object], done: Mapping[int, Written]) -> dict[str, Any]:
    """Check that all parts are there, and nothing else; then say so in the manifest."""
    storage, sizes = job.storage, job.storage.sizes()
    for number, part in done.items():
        if sizes.get(part_name(number)) != part.bytes:
            raise WhenceError(
                f"{part_name(number)} in {shown(storage.place)} was removed or changed while the job ran; the same command "
                "makes it again"
            )
    for name in sizes:
        if (match := PART.fullmatch(name)) and int(match[1]) not in done:
            storage.remove(name)  # of another job, or of a longer input
    rejects, reasons = rejects_of(storage, sorted(done.values(), key=lambda part: part.number))
    storage.write(REJECTS, rejects)
    return write_manifest(storage, identity, {**job.facts, "reasons": reasons}, done.values(), complete=True)


def _has_rejects(storage: Storage, manifest: Mapping[str, Any]) -> bool:
    """Whether the file of rejected rows is there and whole."""
    pa = arrow()
    try:
        with storage.open(REJECTS) as file:
            return read_table(file).num_rows == manifest["rejected"]
    except (OSError, ValueError, pa.ArrowException):
        return False


def _require_apart(job: Job) -> None:
    """Refuse a folder that holds files of the input."""
    if isinstance(job.storage, Local):
        folder = Path(job.storage.place).resolve()
        if job.source.folder is not None and folder.is_relative_to(job.source.folder):
            raise InputError(f"{folder} lies in {job.source.folder}, which is read; give a folder outside the input")
        for file in job.source.files:
            if not file.is_remote and folder in Path(file.path).resolve().parents:
                raise InputError(f"{folder} holds {file.name}, which is read; give a folder outside the input")


def _begun(
    job: Job, identity: Mapping[str, object], manifest: Mapping[str, Any] | None, *, restart: bool
) -> dict[int, Written]:
    """The parts that are done already and whole; after a restart there are none."""
    storage, sizes = job.storage, job.storage.sizes()
    numbers = {int(match[1]): name for name in sizes if (match := PART.fullmatch(name))}
    if restart:
        for name in (MANIFEST, REJECTS, *numbers.values()):
            storage.remove(name)
        return {}
    strange = sorted(name for name in sizes if not name.startswith("."))
    if manifest is None and strange:
        raise InputError(
            f"{storage.place} holds {strange[0]} but no {MANIFEST}; give an empty folder, or --restart to write into this one"
        )
    digest = job_digest(identity)
    known: dict[str, str] = {part["file"]: part.get("sha256") for part in (manifest or {}).get("parts", [])}
    whole: dict[int, Written] = {}
    for number, name in numbers.items():
        found = read_written(storage, number)
        if found is not None and found.written.job == digest and known.get(name) in (None, found.written.sha256):
            whole[number] = found.written
    return whole


def _work(
    job: Job, engine: Engine, identity: Mapping[str, object], done: dict[int, Written], progress: Progress, *, is_complete: bool
) -> None:
    """Do the parts that are missing; `done` gets them. A job that is complete is left so if no part is missing."""
    count, seen = Counter(rows=sum(part.rows for part in done.values())), set[int]()
    source, begun = job.source, len(done)

    def told() -> None:
        write_manifest(job.storage, identity, job.facts, done.values(), complete=False)

    if not is_complete:
        told()

    def missing() -> Iterator[Part]:
        for part in parts_of(source.rows(), size=job.part_rows):
            seen.add(part.number)
            known = done.get(part.number)
            if known is None:
                if is_complete and len(done) == begun:
                    told()
                yield part
            elif known.digest != part.digest():
                raise InputError(
                    f"row {part.first:,} of the input or one after it has changed since {job.storage.place} was begun; "
                    "--restart begins anew"
                )
            progress(count["rows"], source.read, source.size)

    work = Work(
        job.task, job.storage, job_digest(identity), {**job.facts, **job.identity, "version": __version__, "rules": RULES}
    )
    written = time.monotonic()
    try:
        with closing(engine(work, missing())) as finished:
            for part in finished:
                done[part.number] = part
                count["rows"] += part.rows
                progress(count["rows"], source.read, source.size)
                if time.monotonic() - written > SECONDS:
                    told()
                    written = time.monotonic()
    except BaseException as error:
        with suppress(WhenceError, OSError):  # the disk may be full: then the parts alone say what is done
            is_refused = isinstance(error, (InputError, DataError)) and not any(map(PART.fullmatch, job.storage.sizes()))
            if is_refused:
                job.storage.remove(MANIFEST)  # nothing was begun
            elif not is_complete or len(done) > begun:
                told()
        raise
    for number in set(done) - seen:  # of a longer input
        raise InputError(
            f"the input ended before part {number}; it has changed since {job.storage.place} was begun; --restart begins anew"
        )
