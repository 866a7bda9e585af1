"""The names of a data frame's columns (pandas, polars, Arrow), and how columns are put into the order of a model's features."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import cast

from whence.errors import InputError
from whence.quoting import quoted


def columns_of(given: object) -> tuple[str, ...]:
    """The names of a frame's columns; none of what is no frame, or whose columns are only numbered."""
    found = getattr(given, "column_names", None)  # of Arrow, whose `columns` are the numbers
    names = list(cast(Iterable[object], found if found is not None else getattr(given, "columns", ())))
    are_numbers = all(isinstance(name, Integral) for name in names)
    are_counted = names == [f"column_{n}" for n in range(len(names))]  # what polars calls columns without names
    return () if are_numbers or are_counted else tuple(map(str, names))


def order_of(columns: Sequence[str], wanted: Sequence[str], owner: str) -> list[int]:
    """For each wanted name the number of its column; `owner` says in messages whose names they are."""
    if tuple(columns) == tuple(wanted):
        return list(range(len(wanted)))
    missing, unknown = ([n for n in one if n not in other] for one, other in ((wanted, columns), (columns, wanted)))
    if missing or unknown:
        told = [f"lack {quoted(missing)}"] * bool(missing) + [f"have {quoted(unknown)} besides"] * bool(unknown)
        raise InputError(
            f"the columns {' and '.join(told)}; {owner} names {quoted(list(wanted))}: rename or drop columns, or give plain "
            "numbers in this order"
        )
    if not len(columns) == len(wanted) == len(set(wanted)):
        raise InputError(f"the columns are {quoted(list(columns))}; give each of {quoted(list(wanted))} once")
    return [columns.index(name) for name in wanted]
