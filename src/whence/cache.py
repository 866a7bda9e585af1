"""The user's cache directory, where downloaded data and compiled kernels are kept."""

import os
from pathlib import Path


def cache_home() -> Path:
    """`$XDG_CACHE_HOME`, else `~/.cache`. A relative path is ignored, as the XDG specification demands."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"
