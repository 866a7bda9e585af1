"""Classes as users and labels name them: by name in whatever letters, or by number."""

import re
from collections.abc import Sequence

from whence.errors import TargetError
from whence.models.pipeline import class_of


def class_named(classes: Sequence[str], given: object) -> str | None:
    """The class of this name or, if there is none, of this number."""
    found = _by_name(classes, given)
    if found is None:
        number = number_of(classes, given)
        found = number if number is not None and number < len(classes) else None
    return None if found is None else classes[found]


def number_of(classes: Sequence[str], given: object) -> int | None:
    """The whole number that is given where no class has that name. 3.0 is 3: pandas writes so where a column has gaps."""
    written = re.fullmatch(r"(\d{1,18})(\.0*)?", str(given).strip())
    return int(written[1]) if written and _by_name(classes, given) is None else None


def _by_name(classes: Sequence[str], given: object) -> int | None:
    found = class_of(classes, given)
    return class_of(classes, str(given).strip()) if found is None else found


def chosen_targets(classes: Sequence[str], explained: Sequence[str], given: str | None) -> list[str]:
    """The one class that the user names, which must be among those explained; or all of these."""
    if given is None:
        return list(explained)
    found = class_named(classes, given)
    if found is None:
        raise TargetError(f"there is no class {given!r}; the model has {', '.join(classes)}")
    if explained and found not in explained:
        raise TargetError(f"no text of this corpus was explained for {found!r}; there are {', '.join(explained)}")
    return [found]
