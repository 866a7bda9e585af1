"""Which method suits a model and its data: candidates, and the recommendation that the measurements support."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from whence.evaluation.bootstrap import mean_band
from whence.methods.lrp import LRP
from whence.methods.method import Method
from whence.methods.registry import METHODS, method_of
from whence.trust.contestants import label_of
from whence.trust.evaluation import Evaluation
from whence.trust.texts import Texts

SIMILAR = 2.0  # prices that differ by less than this factor count as the same
LIMIT = 300  # samples, unless told otherwise
SERIOUS = ("constant", "random", "borrowed", "weights", "labels", "few")  # flags that rule a method out


def candidates() -> dict[str, Method]:
    """LRP with other settings, one changed at a time, and all other methods as they are."""
    variants = [
        LRP(),
        *(LRP(epsilon=epsilon) for epsilon in (1e-6, 1e-2, 1e-1)),
        LRP(delta=1.0),
        *(LRP(product=product) for product in ("half", "prop", "abs")),
    ]
    others = [method_of(name) for name in METHODS if name not in ("lrp", "random")]
    return {label_of(each): each for each in [*variants, *others]}


class Recommendation(NamedTuple):
    """The cheapest method that nothing speaks against and that no other was shown to beat."""

    name: str | None  # None if every method failed or was flagged
    best: str | None  # the method with the highest separation
    equals: tuple[str, ...]  # methods that were not shown to be worse than the best
    sentences: tuple[str, ...]


def with_recommendation(found: Evaluation) -> Evaluation:
    """The evaluation with a recommendation, also in its results."""
    chosen = recommendation(found)
    return replace(found, recommended=chosen, results={**found.results, "recommendation": chosen._asdict()})


def recommendation(found: Evaluation) -> Recommendation:
    """Choose by separation, which looks at both ends of the order; a tie goes to the price."""
    by_name = found.results["methods"]
    fit = [
        each.name
        for each in found.contestants
        if "error" not in by_name[each.name]
        and by_name[each.name]["separation"]["value"] is not None
        and not any(flag["check"] in SERIOUS for flag in by_name[each.name]["flags"])
    ]
    if not fit:
        return Recommendation(None, None, (), ("No method can be recommended: each failed, or something speaks against it.",))
    value = {name: by_name[name]["separation"]["value"] for name in fit}
    best = max(fit, key=lambda name: value[name])
    least = min(value[name] for name in fit if name == best or _is_equal(found, best, name))
    equals = tuple(name for name in fit if value[name] >= least)
    price = {name: by_name[name]["seconds_per_text"]["value"] for name in fit}
    cheap = SIMILAR * min(price[name] for name in equals)  # times of one machine vary
    chosen = max((name for name in equals if price[name] <= cheap), key=lambda name: value[name])
    return Recommendation(chosen, best, equals, tuple(_sentences(found, chosen, best, equals, value, price)))


def _is_equal(found: Evaluation, best: str, other: str) -> bool:
    """Whether the difference may be chance: its paired 95 % interval holds 0."""
    assert found.faithfulness is not None
    measured = found.faithfulness.measured
    difference = measured[best].separation - measured[other].separation
    known = difference[np.isfinite(difference)]
    return not len(known) or float(mean_band(known).low) <= 0


def _sentences(
    found: Evaluation,
    chosen: str,
    best: str,
    equals: Sequence[str],
    value: dict[str, float],
    price: dict[str, float],
) -> list[str]:
    def told(name: str) -> str:
        low, high = found.results["methods"][name]["separation"]["interval"]
        return f"{name} (separation {value[name]:.3f}, 95 %: {low:.3f} to {high:.3f}; {1000 * price[name]:.1f} ms per sample)"

    made = [f"Use {told(chosen)}: {command(found, chosen)}."]
    if chosen != best:
        made.append(f"The highest separation has {told(best)}, at a higher price.")
    others = sorted((name for name in equals if name not in (chosen, best)), key=lambda name: -value[name])
    if others:
        made.append(f"Not told apart from the best: {', '.join(f'{name} {value[name]:.3f}' for name in others)}.")
    worse = sorted((name for name in value if name not in equals), key=lambda name: -value[name])
    if worse:
        made.append(f"Shown to be worse than {best}: {', '.join(f'{name} {value[name]:.3f}' for name in worse)}.")
    if "occlusion" in chosen or "occlusion" in best:
        made.append("Separation is measured by deletion, which favours occlusion.")
    out = [each.name for each in found.contestants if each.name not in value]
    if out:
        made.append(f"Not considered, because of an error or a failed check: {', '.join(out)}.")
    return made


def command(found: Evaluation, name: str) -> str:
    """How the chosen method is given to `whence explain`, or for samples that are no texts to `whence.relevance`."""
    chosen = next(each for each in found.contestants if each.name == name)
    method, is_against_rest = chosen.method, chosen.against == "rest"
    usual = type(method)().settings()
    settings = {key: value for key, value in method.settings().items() if usual.get(key) != value}
    if isinstance(found.subject, Texts):
        told = "".join(f" --set {key}={value}" for key, value in settings.items())
        return f"whence explain --method {method.name}{told}{' --versus rest' if is_against_rest else ''}"
    made = f"{type(method).__name__}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"
    target = ', target=whence.contrast(label, "rest")' if is_against_rest else ""
    return f"whence.relevance(model, x{target}, method=whence.{made})"
