"""Reads all of an HDF5 file that the importer or Keras would read. Run in a process of its own, which a damaged file may kill.

    python -I probe_script.py FOLDER… < model.h5

The folders are those of h5py and NumPy. It prints STARTED, and SOUND if all could be read; otherwise the reason, on one line.
It is run as a file, so it imports nothing of this package. The reader in `files` shares its conditions.
"""

import sys
from importlib import import_module
from typing import Any

STARTED, SOUND = "started", "sound"
MEMORY = 250 * 2**20  # bytes that reading may need, beside those of the modules and three times the file
MEMORY_OF_MODULES = 150 * 2**20  # where the system does not say
SECONDS = 2  # of computing, for a small file
GROUPS_PER_SECOND = 2**19  # bytes of small groups and arrays that are surely read in a second
SECONDS_FOR_GROUPS = 20  # at most
ARRAYS_PER_SECOND = 2**25  # bytes of large arrays that are surely read in a second
LARGEST_ATTRIBUTE = 4 * 2**20  # bytes
MOST_NAMES = 2**14  # names in an attribute
MOST_OBJECTS = 10**6  # groups and arrays
DEEPEST = 100  # groups in groups


def main() -> None:
    """Read the file that is given as the standard input."""
    sys.path.extend(sys.argv[1:])
    h5py = import_module("h5py")  # its time is no part of the limits below
    print(STARTED, flush=True)
    try:
        size = sys.stdin.buffer.seek(0, 2)
        sys.stdin.buffer.seek(0)
        limit(size)
        read(h5py, sys.stdin.buffer.read())
    except Exception as error:
        print(f"{type(error).__name__}:", *str(error)[:1000].split())
        raise SystemExit(1) from None
    print(SOUND)


def limit(size: int) -> None:
    """Limit memory and computing time for a file of a size, where the system can, and write no image of a crash."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = SECONDS + min(size // GROUPS_PER_SECOND, SECONDS_FOR_GROUPS) + size // ARRAYS_PER_SECOND
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: int(usage.ru_utime + usage.ru_stime) + seconds,
        resource.RLIMIT_AS: mapped(resource.getpagesize()) + MEMORY + 3 * size,
    }
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        try:
            resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
        except (ValueError, OSError):  # macOS does not limit memory
            continue


def mapped(page: int) -> int:
    """The bytes of addresses that this process has taken up already."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * page
    except OSError:
        return MEMORY_OF_MODULES


def read(h5py: Any, content: bytes) -> None:
    """Read everything once, then write what is written before Keras loads an .h5 file."""
    with h5py.File(h5py.h5f.open_file_image(content)) as file:
        walk(h5py, file, 2 * len(content) + 2**20)
        is_model = "model_config" in file.attrs
    if is_model:
        with h5py.File(h5py.h5f.open_file_image(content, h5py.h5f.FILE_IMAGE_OPEN_RW)) as file:
            file.attrs["model_config"] = file.attrs["model_config"]


def walk(h5py: Any, root: Any, most: int) -> None:
    """Read all groups, their attributes and plain arrays of at most so many bytes."""
    seen = set[Any]()
    left: list[tuple[Any, str, int]] = [(root, "/", 0)]
    while left:
        group, name, depth = left.pop()
        found = group[name]
        address = h5py.h5o.get_info(found.id).addr
        if address in seen:
            continue
        seen.add(address)
        if len(seen) > MOST_OBJECTS or depth > DEEPEST:
            raise ValueError("too many groups, or too deep")
        if isinstance(found, h5py.Group):
            for each in found.attrs:
                if is_short(found.attrs.get_id(each)):
                    found.attrs[each]
            links = [(each, found.get(each, getlink=True)) for each in found]
            left += [(found, each, depth + 1) for each, link in links if type(link) is h5py.HardLink]
        elif isinstance(found, h5py.Dataset) and holds_numbers(found) and is_plain(h5py, found) and is_whole(found):
            most -= found.nbytes
            if most < 0:
                raise ValueError("more numbers than the file holds")
            found[()]


def is_short(attribute: Any) -> bool:
    """Whether an attribute may be read, as far as its type and shape say."""
    count = 1
    for length in attribute.shape or ():
        count *= length
    return count <= MOST_NAMES and count * attribute.dtype.itemsize <= LARGEST_ATTRIBUTE


def holds_numbers(found: Any) -> bool:
    """Whether an array is of numbers."""
    return found.dtype.kind in "fiu" and found.dtype.itemsize <= 8


def is_plain(h5py: Any, found: Any) -> bool:
    """Whether an array is stored as it is, in one piece, in this file."""
    plan = found.id.get_create_plist()
    is_one_piece = plan.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
    return is_one_piece and not (found.is_virtual or found.external or plan.get_nfilters())


def is_whole(found: Any) -> bool:
    """Whether all numbers of an array are stored."""
    return found.shape is not None and len(found.shape) <= 8 and found.id.get_storage_size() == found.nbytes


if __name__ == "__main__":
    main()
