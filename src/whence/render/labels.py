"""What is written above an explanation: the method that made it, with its settings."""

from whence.explanation import Explanation
from whence.methods.registry import METHODS, method_class
from whence.render.colour import one_line

SYMBOLS = {"epsilon": "ε", "delta": "δ"}


def method_label(explanation: Explanation) -> str:
    """The method and its settings, for a heading."""
    name = str(explanation.method.get("name"))
    label = method_class(name).label if name in METHODS else name
    settings = [(key, value) for key, value in explanation.method.items() if key != "name" and isinstance(value, (int, float))]
    shown = ", ".join(f"{SYMBOLS.get(key, key)} = {value:g}" for key, value in settings)
    return one_line(f"{label} ({shown})" if shown else label)
