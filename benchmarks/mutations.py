"""Small changes to source text: by Python's syntax tree, and by tokens for C. It knows nothing of tests."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple, cast


class Edit(NamedTuple):
    """Characters from `start` to `end` replaced by others."""

    start: int
    end: int
    new: str


COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
COMBINED: dict[type[ast.operator] | type[ast.boolop], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.BitAnd: ("&", "|"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
# Types, messages and what is checked for the reader's sake are left alone.
LEFT_ALONE = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
IN_C = (
    (r" \+ ", " - "), (r" - ", " + "), (r" \* ", " / "), (r" / ", " * "), (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "),
    (r" >= ", " > "), (r" \+= ", " -= "), (r" != ", " == "), (r" && ", " || "), (r"!(?=\w)", ""),
)  # fmt: skip


def edits_of(source: str, *, is_python: bool) -> list[Edit]:
    """All edits of a file, in order."""
    found = PythonEdits(source).found if is_python else list(c_edits(source))
    return sorted(dict.fromkeys(found))


class PythonEdits:
    """What the operators make of a module."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[Edit] = []
        for node in ast.parse(source).body:
            self.visit(node)

    def place(self, line: int, column: int) -> int:
        """Where in the text a node's position is: Python counts columns in bytes."""
        start = self.lines[line - 1]
        row = self.source[start : self.lines[line]].encode()
        return start + len(row[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The characters of a node."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.place(node.lineno, node.col_offset), self.place(node.end_lineno, node.end_col_offset)

    def replace(self, node: ast.expr | ast.stmt, new: str) -> None:
        """Put other text in place of a node."""
        self.found.append(Edit(*self.span(node), new))

    def between(self, left: ast.expr, right: ast.expr, words: tuple[str, str]) -> None:
        """Change the operator between two operands, which may stand in parentheses."""
        start, end = self.span(left)[1], self.span(right)[0]
        at = self.source.index(words[0], start, end)
        self.found.append(Edit(at, at + len(words[0]), words[1]))

    def visit(self, node: ast.AST) -> None:
        """The edits of a node and of all below it."""
        if isinstance(node, LEFT_ALONE) or _is_documentation(node) or _is_for_types(node):
            return
        if isinstance(node, ast.stmt):
            self.statement(node)
        elif isinstance(node, ast.expr):
            self.expression(node)
        for name, field in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "bases"):
                for each in cast(list[object], field) if isinstance(field, list) else [field]:
                    if isinstance(each, ast.AST):
                        self.visit(each)

    def statement(self, node: ast.stmt) -> None:
        """Leave a statement out, or a condition."""
        if isinstance(node, ast.If):
            self.condition(node.test)
            if isinstance(node.body[-1], (ast.Return, ast.Raise)) and len(node.body) == 1:
                self.replace(node.body[0], "pass")
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if is_call or isinstance(target, ast.Subscript) or isinstance(node, (ast.AugAssign, ast.Continue, ast.Break)):
            self.replace(node, "pass")

    def condition(self, test: ast.expr) -> None:
        """Make a condition hold always and never."""
        self.replace(test, "True")
        self.replace(test, "False")

    def expression(self, node: ast.expr) -> None:
        """Another operator, another constant, no negation."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            self.between(node.left, node.comparators[0], COMPARED[type(node.ops[0])])
        elif isinstance(node, ast.BinOp) and type(node.op) in COMBINED:
            self.between(node.left, node.right, COMBINED[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                self.between(left, right, COMBINED[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            start = self.span(node)[0]
            self.found.append(Edit(start, start + (4 if isinstance(node.op, ast.Not) else 1), ""))
        elif isinstance(node, ast.IfExp):
            self.condition(node.test)
        elif isinstance(node, ast.Constant) and (other := _another(node.value)) is not None:
            self.replace(node, other)


def _another(constant: object) -> str | None:
    """A constant in place of another, None where there is no telling what would be one."""
    if isinstance(constant, bool):
        return str(not constant)
    if isinstance(constant, int):
        return str(constant + 1)
    return str(2 * constant or 1.0) if isinstance(constant, float) else None


def _is_documentation(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_types(node: ast.AST) -> bool:
    is_for_checkers = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return is_for_checkers or (isinstance(node, ast.keyword) and node.arg == "strict")


def c_edits(source: str) -> Iterator[Edit]:
    """Edits of C by its tokens, but not in comments, nor in what differs from processor to processor (#if … #endif)."""
    hidden = [
        match.span() for match in re.finditer(r"/\*.*?\*/|^#if.*?^#endif|^#.*?$|^enum.*?$|case \d+:", source, re.M | re.S)
    ]

    def is_hidden(place: int) -> bool:
        return any(start <= place < end for start, end in hidden)

    for pattern, new in IN_C:
        yield from (Edit(*each.span(), new) for each in re.finditer(pattern, source) if not is_hidden(each.start()))
    for each in re.finditer(r"(?<![\w.])\d+(?:\.\d+(?:e-?\d+)?)?(?![\w.])", source):
        if not is_hidden(each.start()):
            number = each[0]
            yield Edit(*each.span(), str(2 * float(number)) if "." in number else str(int(number) + 1))
