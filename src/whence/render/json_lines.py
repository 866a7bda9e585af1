"""Explanations as JSON Lines: one object per line and explanation."""

import json
from collections.abc import Sequence

from whence.explanation import Explanation


def json_lines(groups: Sequence[Sequence[Explanation]]) -> str:
    """All explanations, one per line."""
    return "".join(json.dumps(explanation.to_dict(), allow_nan=False) + "\n" for group in groups for explanation in group)
