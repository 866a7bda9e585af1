"""Whence does a recurrent network's decision come? Relevance for recurrent models, signed, adding up to the score."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence._explain import explain
    from whence._inspect import inspect
    from whence._phrases import phrase_tree, phrases
    from whence._relevance import relevance
    from whence._series import SeriesExplanation, explain_series
    from whence._summary import summarize
    from whence.engine.custom import Call, handles
    from whence.engine.products import gate
    from whence.errors import (
        ConservationError,
        DataError,
        InputError,
        ModelError,
        NoRuleError,
        TargetError,
        WeightsError,
        WhenceError,
    )
    from whence.explanation import Explanation
    from whence.explanations import Explanations
    from whence.imports.keras import from_keras
    from whence.imports.onnx.importing import from_onnx
    from whence.inspection import Inspection
    from whence.methods.decomposition import ContextualDecomposition
    from whence.methods.gradient_input import GradientXInput
    from whence.methods.integrated import IntegratedGradients
    from whence.methods.lrp import LRP
    from whence.methods.occlusion import Occlusion
    from whence.methods.random_relevance import Random
    from whence.methods.sensitivity import SensitivityAnalysis
    from whence.methods.shapley import Shapley
    from whence.methods.smoothgrad import SmoothGrad
    from whence.methods.target import contrast
    from whence.models.bundled import load
    from whence.models.pipeline import Pipeline
    from whence.models.series import SeriesModel
    from whence.phrase import Phrases, PhraseTree
    from whence.plots import plot
    from whence.result import Result
    from whence.summary import Summary
    from whence.text.vocabulary import Vocabulary
    from whence.trust.evaluate import evaluate
    from whence.trust.evaluation import Evaluation

__version__ = "0.1.0"

# Where each public name lives; it is imported when first used, so that a command's --help need not wait for torch.
_HOMES = {
    "explain": "whence._explain",
    "inspect": "whence._inspect",
    "phrase_tree": "whence._phrases",
    "phrases": "whence._phrases",
    "relevance": "whence._relevance",
    "SeriesExplanation": "whence._series",
    "explain_series": "whence._series",
    "summarize": "whence._summary",
    **dict.fromkeys(
        (
            "ConservationError",
            "DataError",
            "InputError",
            "ModelError",
            "NoRuleError",
            "TargetError",
            "WeightsError",
            "WhenceError",
        ),
        "whence.errors",
    ),
    "Explanation": "whence.explanation",
    "Explanations": "whence.explanations",
    "from_keras": "whence.imports.keras",
    "from_onnx": "whence.imports.onnx.importing",
    "Inspection": "whence.inspection",
    "Call": "whence.engine.custom",
    "handles": "whence.engine.custom",
    "gate": "whence.engine.products",
    "ContextualDecomposition": "whence.methods.decomposition",
    "GradientXInput": "whence.methods.gradient_input",
    "IntegratedGradients": "whence.methods.integrated",
    "LRP": "whence.methods.lrp",
    "Occlusion": "whence.methods.occlusion",
    "Random": "whence.methods.random_relevance",
    "SensitivityAnalysis": "whence.methods.sensitivity",
    "Shapley": "whence.methods.shapley",
    "SmoothGrad": "whence.methods.smoothgrad",
    "contrast": "whence.methods.target",
    "load": "whence.models.bundled",
    "Pipeline": "whence.models.pipeline",
    "SeriesModel": "whence.models.series",
    "PhraseTree": "whence.phrase",
    "Phrases": "whence.phrase",
    "plot": "whence.plots",
    "Result": "whence.result",
    "Summary": "whence.summary",
    "Vocabulary": "whence.text.vocabulary",
    "Evaluation": "whence.trust.evaluation",
    "evaluate": "whence.trust.evaluate",
}

# What displays itself, or returns what does.
DISPLAYED = (
    "explain Explanation Explanations inspect Inspection phrases phrase_tree Phrases PhraseTree summarize Summary".split()
)

__all__ = [
    "LRP",
    "Call",
    "ConservationError",
    "ContextualDecomposition",
    "DataError",
    "Evaluation",
    "Explanation",
    "Explanations",
    "GradientXInput",
    "InputError",
    "Inspection",
    "IntegratedGradients",
    "ModelError",
    "NoRuleError",
    "Occlusion",
    "PhraseTree",
    "Phrases",
    "Pipeline",
    "Random",
    "Result",
    "SensitivityAnalysis",
    "SeriesExplanation",
    "SeriesModel",
    "Shapley",
    "SmoothGrad",
    "Summary",
    "TargetError",
    "Vocabulary",
    "WeightsError",
    "WhenceError",
    "contrast",
    "evaluate",
    "explain",
    "explain_series",
    "from_keras",
    "from_onnx",
    "gate",
    "handles",
    "inspect",
    "load",
    "phrase_tree",
    "phrases",
    "plot",
    "relevance",
    "summarize",
]


def __getattr__(name: str) -> Any:
    if name in ("captum", "corpus", "experiments"):
        return import_module(f"whence.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'whence' has no attribute {name!r}")
    if name in DISPLAYED:
        import_module("whence.render.display")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
