"""A column of a table in memory as a plain list: of pandas, polars, Arrow, NumPy or Hugging Face `datasets`, or a list."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

from whence.errors import InputError


def column_of(given: object, name: str) -> tuple[list[object], Any]:
    """The values of a column, and its index if pandas made it; `name` says in messages what the column is."""
    found, kind = cast(Any, given), type(given).__name__
    if isinstance(given, Mapping) or hasattr(found, "column_names") or len(getattr(found, "shape", (0,))) > 1:
        raise InputError(f"{name} is a {kind}; give one of its columns, such as table['text']")
    if isinstance(given, (str, bytes, AbstractSet)) or not isinstance(given, Iterable):
        raise InputError(f"{name} is a {kind}; give a list of them, or a column of a table")
    for listing in ("to_pylist", "to_list", "tolist"):  # of Arrow, of pandas and polars, of NumPy
        if hasattr(found, listing):
            values = _listed(found, listing)
            if not isinstance(values, list):
                raise InputError(f"{name} is a single {kind}; give a list of them")
            index = found.index if type(found).__module__.split(".")[0] == "pandas" and hasattr(found, "loc") else None
            return cast(list[object], values), index
    return list(cast(Iterable[object], given)), None


def _listed(column: Any, listing: str) -> object:
    try:
        return getattr(column, listing)()
    except UnicodeDecodeError:  # Arrow's texts need not be UTF-8
        return [_value(each) for each in column]


def _value(value: Any) -> object:
    """A value of Arrow's; the bytes of a text that is none."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes()


def is_missing(value: object) -> bool:
    """Whether a value stands for a gap: None, NaN, pandas' NA and NaT."""
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
