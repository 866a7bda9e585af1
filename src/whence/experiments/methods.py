"""The methods of the report by name: the paper's, Gradient×Input, and those that a user adds."""

from collections.abc import Mapping, Sequence

from whence.errors import InputError
from whence.experiments.published import DELTA, EPSILON
from whence.methods.gradient_input import GradientXInput
from whence.methods.lrp import LRP
from whence.methods.method import Method
from whence.methods.registry import method_of
from whence.methods.sensitivity import SensitivityAnalysis

RANDOM = "random"  # in Fig. 3 the mean of several random orders, not the method of that name
PAPER = ("sa", "lrp", "lrp_cons", "gi", RANDOM)  # what every report has
NAMES = {"sa": "SA", "lrp": "LRP", "lrp_cons": "LRP_cons", "gi": "Gradient×Input", RANDOM: "random"}


def methods_of(*, epsilon: float = EPSILON, delta: float = DELTA, further: Sequence[str | Method] = ()) -> dict[str, Method]:
    """The methods of a report, with LRP's settings; what `further` names beyond them comes last."""
    found: dict[str, Method] = {
        "sa": SensitivityAnalysis(),
        "lrp": LRP(epsilon=epsilon, delta=delta),
        "lrp_cons": LRP(epsilon=epsilon, delta=1.0),
        "gi": GradientXInput(),
    }
    if isinstance(further, (str, Method)) or not isinstance(further, Sequence):
        raise InputError(f"methods is {further!r}; give a list of methods, such as methods=['gi']")
    for given in further:
        method = method_of(given)
        if not method.name.isidentifier():
            raise InputError(f"a method is called {method.name!r}; files are named after it, so give it a name of letters")
        if method.name == RANDOM:
            continue
        if method != found.setdefault(method.name, method) and not isinstance(given, str):
            raise InputError(
                f"{method!r} cannot be added: the report has {found[method.name]!r} under the name {method.name!r}; "
                "epsilon= and delta= set those of LRP"
            )
    return found


def names_of(methods: Mapping[str, Method]) -> dict[str, str]:
    """How the methods, and random deletion, are called in the report."""
    return {name: method.short or method.label for name, method in methods.items()} | NAMES


def further_of(methods: Mapping[str, Method]) -> list[str]:
    """The names of the methods that a user added."""
    return [name for name in methods if name not in PAPER]
