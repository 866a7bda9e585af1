"""Places of files: paths of this machine, and addresses of object stores, which may hold a password."""

import re
from functools import lru_cache
from typing import Any

from whence.data.arrow import arrow
from whence.errors import DataError

UNREACHED = "AWS Error"  # in the problem of a row that an object store has not given


def is_address(place: str) -> bool:
    """Whether a place is an address such as s3://bucket/folder."""
    return "://" in place and not place.startswith("file://")


def shown(text: str) -> str:
    """A place, or what is said of one, without the user and password that an address may hold."""
    return re.sub(r"://([^/@?\s]*:[^?\s]*|[^/@?\s]*)@", "://…@", text)


def reason(error: BaseException) -> str:
    """What an error says, in one line and without passwords."""
    line = shown((str(error).splitlines() or [type(error).__name__])[0])
    return line[max(line.find(UNREACHED), 0) :].split(" (Request ID")[0]


@lru_cache(maxsize=16)
def filesystem_of(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it; to open one may take requests."""
    arrow()
    from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]

    pa_fs: Any = fs
    try:
        return pa_fs.FileSystem.from_uri(address)
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise DataError(f"{shown(address)!r} cannot be opened: {reason(error)}") from None


def local_path(place: str) -> str:
    """A path of this machine, also if it is written as file://…."""
    return place.removeprefix("file://")
