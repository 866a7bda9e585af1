"""What can be said about a method from its settings alone; the causes of failures are told by these traits.

A trait holds for the settings in which the cause was examined. Other settings have fewer traits, rather than wrong ones.
"""

from whence.methods.decomposition import ContextualDecomposition
from whence.methods.gradient_input import GradientXInput
from whence.methods.lrp import LRP
from whence.methods.method import Method
from whence.methods.occlusion import Occlusion
from whence.methods.random_relevance import Random
from whence.methods.sensitivity import SensitivityAnalysis
from whence.methods.shapley import Shapley
from whence.methods.smoothgrad import SmoothGrad

NEAR = 0.2  # with more noise, SmoothGrad leaves the range in which the hand-built gates are saturated


def traits_of(method: Method) -> frozenset[str]:
    """The traits of a method.

    - lrp: LRP with the paper's rule for products, which gives gates nothing
    - gradient alone: the gradient, or its square, without the input; plain gradient: not squared
    - times input: the gradient times the input
    - local: it reads the model only near the inputs
    - one at a time: leave-one-out with a zero baseline
    - whole steps: the features of a step share its amount evenly
    - phrases: contextual decomposition
    - unsigned, random
    """
    is_near = isinstance(method, SmoothGrad) and method.noise <= NEAR
    is_plain = isinstance(method, SmoothGrad) and not method.times_input
    found = {
        "lrp": isinstance(method, LRP) and method.product == "all",
        "gradient alone": isinstance(method, SensitivityAnalysis) or is_plain,
        "plain gradient": is_plain,
        "times input": isinstance(method, GradientXInput) or (is_near and not is_plain),
        "local": isinstance(method, (SensitivityAnalysis, GradientXInput)) or is_near,
        "one at a time": isinstance(method, Occlusion) and method == Occlusion(batch=method.batch),
        "whole steps": isinstance(method, (Occlusion, Shapley, ContextualDecomposition)),
        "phrases": isinstance(method, ContextualDecomposition),
        "unsigned": not method.is_signed,
        "random": isinstance(method, Random),
    }
    return frozenset(name for name, holds in found.items() if holds)


RANDOM = {"random": "its relevance is drawn at random"}  # a cause in every task
