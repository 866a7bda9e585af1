"""Names of torch functions: a function, its method, its operator and its in-place form share one."""

from collections.abc import Callable, Mapping
from typing import Any

OPERATORS = {
    **{f"__{name}__": name for name in "add sub mul truediv matmul neg getitem setitem iter reversed pow".split()},
    **{f"__i{name}__": name for name in "add sub mul truediv".split()},
    "__radd__": "add",
    "__rmul__": "mul",
    "__rsub__": "rsub",
    "__rmatmul__": "rmatmul",
    "__pos__": "positive",
}
OPERANDS = "condition self input tensors mat1 batch1 tensor1 other mat2 batch2 tensor2 vec".split()
IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__setitem__")


def name_of(function: Callable[..., Any]) -> str:
    """The name under which a function, its method, its operator and its in-place form are looked up."""
    name: str = getattr(function, "__name__", repr(function))
    if name == "__get__":  # a property: the name is that of what it belongs to
        return getattr(getattr(function, "__self__", None), "__name__", name)
    return OPERATORS.get(name) or (name if name.startswith("__") else name.strip("_"))


def is_in_place(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call writes its result into its first argument."""
    name: str = getattr(function, "__name__", "")
    ends = name.endswith("_") and not name.endswith("__")
    return ends or name in IN_PLACE or bool(kwargs.get("inplace"))


def positional(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call with its operands by position, as `torch.add(input=x, other=y)` means them."""
    kwargs = dict(kwargs)
    for name in OPERANDS:
        if name in kwargs:
            args = (*args, kwargs.pop(name))
    return args, kwargs
