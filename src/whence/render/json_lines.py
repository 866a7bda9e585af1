"""Explanations as JSON Lines: one object per line and explanation."""

import json
from collections.abc import Sequence

from whence.explanation import Explanation
from whence.explanations import valid


def json_lines(groups: Sequence[Sequence[Explanation]]) -> str:
    """All explanations, one per line; halves of characters, which other programs cannot read, are question marks."""
    return "".join(json.dumps(valid(each.to_dict()), allow_nan=False) + "\n" for group in groups for each in group)
