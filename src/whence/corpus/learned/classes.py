"""Classes as users and labels name them: by name in whatever letters, or by number."""

from collections.abc import Sequence

from whence.errors import TargetError
from whence.models.pipeline import class_of


def class_named(classes: Sequence[str], given: object) -> str | None:
    """The class of this name or, if there is none, of this number."""
    found = class_of(classes, given)
    if found is None:
        written = str(given).strip()
        found = class_of(classes, written)
        if found is None and written.isdecimal() and int(written) < len(classes):
            found = int(written)
    return None if found is None else classes[found]


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
