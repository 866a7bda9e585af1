"""For the reference: the comment behind a field of a class is its description."""

import re
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Reads `score: Tensor  # (B,), or () for an unbatched input` as a field with a docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Give an attribute of a class its comment, if it has no docstring."""
        if attr.docstring is not None or attr.lineno is None or not (attr.parent and attr.parent.is_class):
            return
        comment = re.search(r"\s\s# (?!pyright|noqa|type:)(.+)$", attr.source.splitlines()[0] if attr.source else "")
        if comment:
            attr.docstring = griffe.Docstring(comment[1][0].upper() + comment[1][1:] + ".", parent=attr)
