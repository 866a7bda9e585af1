"""Whence does a recurrent network's decision come? Relevance for LSTMs, signed, adding up to the score."""

from whence._relevance import relevance
from whence.errors import ConservationError, InputError, NoRuleError, TargetError, WeightsError, WhenceError
from whence.interpreter.custom import Call, handles
from whence.methods.gradient_input import GradientXInput
from whence.methods.lrp import LRP
from whence.methods.sensitivity import SensitivityAnalysis
from whence.result import Result

__version__ = "0.1.0"

__all__ = [
    "LRP",
    "Call",
    "ConservationError",
    "GradientXInput",
    "InputError",
    "NoRuleError",
    "Result",
    "SensitivityAnalysis",
    "TargetError",
    "WeightsError",
    "WhenceError",
    "handles",
    "relevance",
]
