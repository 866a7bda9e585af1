"""Checks of methods' settings."""

import math

from whence.errors import InputError


def require_count(name: str, value: object, *, least: int = 1) -> None:
    """Refuse a setting that is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} is {value!r}; it must be a whole number ≥ {least}")


def require_amount(name: str, value: object) -> None:
    """Refuse a setting that is not a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value >= 0):
        raise InputError(f"{name} is {value!r}; it must be a finite number ≥ 0")
