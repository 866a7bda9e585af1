"""The manifest of an explained corpus: what was explained and how, and the parts that are done."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from whence.corpus.layout import MANIFEST
from whence.corpus.parts import Written
from whence.corpus.storage import Storage
from whence.errors import DataError, InputError

FORMAT = 1
# What makes two jobs the same, and how a person calls it.
SAME = {
    "version": "the version of whence",
    "rules": "the number of the rules",
    "model": "the model",
    "method": "the method",
    "target": "the target",
    "versus": "what the target is compared with",
    "columns": "the columns",
    "settings": "the settings",
    "input": "the input",
}


def job_digest(identity: Mapping[str, object]) -> str:
    """A hash of all that makes two jobs the same."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def read_manifest(storage: Storage) -> dict[str, Any] | None:
    """The manifest of a folder; None if it has none."""
    try:
        with storage.open(MANIFEST) as file:
            found = cast(object, json.loads(file.read()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{storage.place}/{MANIFEST} cannot be read: {error}; --restart begins anew") from None
    if not isinstance(found, dict) or not _is_manifest(cast(dict[str, Any], found)):
        raise DataError(f"{storage.place}/{MANIFEST} is not the manifest of an explained corpus; --restart begins anew")
    return cast(dict[str, Any], found)


def _is_manifest(found: Mapping[str, Any]) -> bool:
    """Whether all is there that is relied on."""
    parts = cast(object, found.get("parts"))
    entries = cast(list[object], parts) if isinstance(parts, list) else [None]
    return (
        found.get("format") == FORMAT
        and isinstance(found.get("complete"), bool)
        and all(type(found.get(name)) is int for name in ("rows", "explained", "rejected"))
        and isinstance(found.get("reasons", {}), dict)
        and all(isinstance(entry, dict) and "file" in entry for entry in entries)
    )


def require_same(storage: Storage, manifest: Mapping[str, Any], identity: Mapping[str, object]) -> None:
    """Refuse to go on with a job that was begun with something else."""
    wanted = json.loads(json.dumps(identity))
    changed = [name for name in SAME if manifest.get(name) != wanted.get(name)]
    if changed:
        told = "; ".join(f"{SAME[name]} ({_difference(manifest.get(name), wanted.get(name))})" for name in changed)
        raise InputError(
            f"{storage.place} was begun with something else, which has changed: {told}; --restart throws away what is there, "
            "or give another folder"
        )


def _difference(before: object, now: object) -> str:
    """The first thing that differs, briefly."""
    for kind in (dict, list):
        if isinstance(before, kind) and isinstance(now, kind):
            one, other = _entries(cast(object, before)), _entries(cast(object, now))
            key = next(key for key in [*one, *other] if one.get(key) != other.get(key))
            return f"{key}: {_difference(one.get(key), other.get(key))}"
    return f"{_brief(before)}, now {_brief(now)}"


def _entries(found: object) -> dict[object, object]:
    """What a dictionary holds by its keys, or a list by its numbers."""
    return dict(enumerate(cast(list[object], found))) if isinstance(found, list) else cast(dict[object, object], found)


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def write_manifest(
    storage: Storage, identity: Mapping[str, object], facts: Mapping[str, object], parts: Iterable[Written], *, complete: bool
) -> dict[str, Any]:
    """Write the manifest."""
    known = sorted(parts, key=lambda part: part.number)
    rows, explained = sum(part.rows for part in known), sum(part.explained for part in known)
    found: dict[str, Any] = {
        "format": FORMAT,
        "complete": complete,
        **identity,
        **facts,
        "rows": rows,
        "explained": explained,
        "rejected": rows - explained,
        **({"model_check": known[0].asked} if known and known[0].asked else {}),
        "parts": [part.entry() for part in known],
    }
    storage.write(MANIFEST, (json.dumps(found, indent=1) + "\n").encode())
    return found
