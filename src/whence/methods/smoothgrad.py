"""SmoothGrad: the mean gradient of noisy copies of the inputs."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError
from whence.methods.perturbing import BATCH, Perturbing, Study
from whence.methods.settings import require_amount, require_count
from whence.result import Result


@dataclass(frozen=True)
class SmoothGrad(Perturbing):
    """R_d = 1/n Σ_j ∂f_c/∂x_d (x + ξ_j), ξ_j normal with deviation noise · (max x − min x) (Smilkov et al. 2017).

    The range is that of the sample's own numbers. With `times_input`, the mean is multiplied by x_d.
    """

    takes_derivatives = True
    name = "smoothgrad"
    label = "SmoothGrad"

    samples: int = 32
    noise: float = 0.1
    seed: int = 0
    times_input: bool = False
    batch: int = BATCH  # rows that the model is given at once

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("batch", 1), ("seed", 0)):
            require_count(name, getattr(self, name), least=least)
        require_amount("noise", self.noise)
        if not isinstance(self.times_input, bool):
            raise InputError(f"times_input is {self.times_input!r}; it must be True or False")

    def work(self, steps: int, *, targets: int = 1) -> int:
        """The model runs forward for every noisy copy, and backward, about twice as long, for every target."""
        return self.samples * steps * (1 + 2 * targets)

    def studied(self, study: Study) -> Result:
        """Average the gradient over noisy inputs."""
        noise = [self._noise(study, n) for n in range(len(study.ordered))]

        def noisy(part: range) -> list[Tensor]:
            return [x + each[part.start : part.stop] for x, each in zip(study.ordered, noise, strict=True)]

        weights = torch.full((self.samples,), 1 / self.samples, dtype=torch.double, device="cpu")
        mean = study.derivative_at(weights, noisy, batch=self.batch)
        if self.times_input:
            mean = [each * x for each, x in zip(mean, study.ordered, strict=True)]
        return study.result(mean, self)

    def _noise(self, study: Study, number: int) -> Tensor:
        """The noise (samples, B, U, ...) of an explained tensor.

        Steps are drawn one after another, so that padding and the other samples change nothing.
        """
        x, layout = study.ordered[number], study.layouts[number]
        generator = np.random.default_rng([self.seed, number])
        drawn = generator.standard_normal((layout.place.shape[1], self.samples, *layout.features))
        is_own = layout.is_there.view(*layout.place.shape, *(1,) * len(layout.features))
        highest = x.masked_fill(~is_own, -torch.inf).flatten(1).amax(1)
        lowest = x.masked_fill(~is_own, torch.inf).flatten(1).amin(1)
        spread = (highest - lowest).clamp(min=0).view(-1, *(1,) * (x.dim() - 1))  # (B, 1, ...)
        return self.noise * spread * torch.from_numpy(drawn).to(x).movedim(1, 0)[:, None]
