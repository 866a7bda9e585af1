"""Occlusion: how far the score falls when steps are taken away."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from whence.errors import InputError, TargetError
from whence.methods.baseline import Baseline, baselines, plain
from whence.methods.forward import Forward
from whence.methods.gradient import logarithms
from whence.methods.method import Question
from whence.methods.perturbing import BATCH, Perturbing, Study
from whence.methods.settings import require_count
from whence.result import Result


@dataclass(frozen=True)
class Occlusion(Perturbing):
    """R_t = f_c(x) − f_c(x with step t set to the baseline), shared evenly by the features of the step.

    With `window` > 1, that many steps in a row are set to the baseline together, and a step's relevance is the mean over all
    windows that hold it (Zeiler and Fergus 2014). `of="log-probability"` takes the logarithm of the class's softmax as f_c.
    """

    name = "occlusion"
    label = "occlusion"
    shares_runs = True

    window: int = 1
    of: Literal["score", "log-probability"] = "score"
    baseline: Baseline = "zero"
    batch: int = BATCH  # rows that the model is given at once

    def __post_init__(self) -> None:
        for name in ("window", "batch"):
            require_count(name, getattr(self, name))
        if self.of not in ("score", "log-probability"):
            raise InputError(f'of is {self.of!r}; occlusion compares "score" or "log-probability"')
        object.__setattr__(self, "baseline", plain(self.baseline))

    @property
    def explains_score(self) -> bool:
        """Whether what is explained is the score of a class itself."""
        return self.of == "score"

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Explain a class; a callable target says itself what is explained."""
        if not self.explains_score and callable(question.target):
            raise TargetError('of="log-probability" needs a class as target; let the callable return log-probabilities instead')
        return super().relevance(forward, question)

    def score_of(self, output: Tensor) -> Tensor:
        """The scores, or the logarithms of their softmax."""
        return output if self.explains_score else log_probabilities(output)

    def work(self, steps: int, *, targets: int = 1) -> int:
        """The model runs once for every window; that gives the scores of all targets."""
        return steps * max(1, steps - self.window + 1)

    def studied(self, study: Study) -> Result:
        """Run the model with every window occluded."""
        start = baselines(study, self.baseline)
        return study.result([study.spread(self._drops(study, start, n), n) for n in range(len(start))], self)

    def _drops(self, study: Study, start: list[Tensor], number: int) -> Tensor:
        """The mean drop (K, B, U) of the windows that hold each step of one explained tensor."""
        layout, own = study.layouts[number], study.ordered[number]
        lengths = layout.is_there.sum(1).clamp(min=1)
        sizes = lengths.clamp(max=self.window)[:, None]  # (B, 1): a window is never longer than its sample
        steps = torch.arange(layout.place.shape[1], device=own.device)

        def holds(window: Tensor) -> Tensor:
            """Which steps (V, B, U) the windows that begin at these steps hold, where they fit into their sample."""
            first = window[:, None, None]
            return (steps >= first) & (steps < first + sizes) & (first + sizes <= lengths[:, None])

        def occluded(part: range) -> list[Tensor]:
            held = holds(steps[part.start : part.stop])
            shape = (*held.shape, *(1,) * (own.dim() - 2))
            return [
                torch.where(held.view(shape), start[n], each) if n == number else each.expand(len(part), *each.shape)
                for n, each in enumerate(study.ordered)
            ]

        windows = int((lengths[:, None] - sizes).max()) + 1
        drops = study.scores[:, None] - study.scores_at(windows, occluded, batch=self.batch)  # (K, V, B)
        held = holds(steps[:windows]).to(drops)
        return torch.einsum("kvb,vbu->kbu", drops, held) / held.sum(0).clamp(min=1)


def log_probabilities(output: Tensor) -> Tensor:
    """The logarithms of the classes' probabilities, from scores or from probabilities."""
    if output.dim() == 0 or output.shape[-1] == 1:
        raise TargetError(
            'of="log-probability" needs at least 2 classes, and the model gave 1 score per sample; use of="score"'
        )
    return logarithms(output).log_softmax(-1)
