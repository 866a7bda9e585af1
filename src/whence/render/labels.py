"""What is written beside an explanation about the method that made it."""

from collections.abc import Mapping, Sequence

from whence.explanation import Explanation
from whence.methods.registry import METHODS, method_class
from whence.render.colour import one_line

SYMBOLS = {"epsilon": "ε", "delta": "δ", "gamma": "γ", "alpha": "α"}
UNSHOWN = ("batch", "most")  # settings that do not change what is meant
OF_HEAD = {"gamma": "gamma", "alpha": "alpha-beta"}  # settings that only one rule of LRP's head reads


def method_label(explanation: Explanation) -> str:
    """The method and its settings, for a heading."""
    numbers = {key: value for key, value in effective(explanation.method).items() if isinstance(value, (int, float))}
    settings = [(key, value) for key, value in numbers.items() if not isinstance(value, bool) and key not in UNSHOWN]
    shown = ", ".join(f"{SYMBOLS.get(key, key)} = {value:g}" for key, value in settings)
    return f"{method_name(explanation)} ({one_line(shown)})" if shown else method_name(explanation)


def effective(method: Mapping[str, object]) -> dict[str, object]:
    """The settings of a method without those that have no effect beside the others."""
    head = method.get("head", "epsilon")
    found = {key: value for key, value in method.items() if key != "name" and OF_HEAD.get(key, head) == head}
    return found if head != "epsilon" else {key: value for key, value in found.items() if key != "head"}


def unsigned_note(explanations: Sequence[Explanation]) -> str:
    """For a legend: which of the methods have no sign; nothing where all have one."""
    found = list(dict.fromkeys(method_name(each) for each in explanations if not each.is_signed))
    verb = "has" if len(found) == 1 else "have"
    return f"{' and '.join(found)} {verb} no sign: it says how much a word matters, not for which side" if found else ""


def method_name(explanation: Explanation) -> str:
    """The method as people know it; one that is not in the registry has its name alone."""
    name = str(explanation.method.get("name"))
    return one_line(method_class(name).label if name in METHODS else name)
