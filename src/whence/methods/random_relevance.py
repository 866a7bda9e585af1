"""Random relevance, with which other methods are compared."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from whence.methods.perturbing import Perturbing, Study
from whence.methods.settings import require_count
from whence.result import Result


@dataclass(frozen=True)
class Random(Perturbing):
    """R_d drawn from a normal distribution; that of a step, the sum over its features, has deviation 1.

    What is drawn for a step depends on the seed and on the sample up to this step: every sample has relevance of its own, the
    same alone and in a batch, and the same for every target.
    """

    name = "random"
    label = "random relevance"
    short = "random"

    seed: int = 0

    def __post_init__(self) -> None:
        require_count("seed", self.seed, least=0)

    def work(self, steps: int, *, targets: int = 1) -> int:
        """The same relevance for all targets."""
        return steps

    def studied(self, study: Study) -> Result:
        """Draw relevance for the inputs."""
        drawn = [self._drawn(x, n) for n, x in enumerate(study.ordered)]
        return study.result([each.expand(len(study.scores), *each.shape) for each in drawn], self)

    def _drawn(self, x: Tensor, number: int) -> Tensor:
        """Numbers (B, U, ...) for an explained tensor."""
        found = np.empty(x.shape)
        steps = x.detach().double().cpu().numpy()
        size = max(1, found[0, 0].size)
        for b in range(len(steps)):
            read = hashlib.blake2b(f"{self.seed} {number}".encode(), digest_size=16)
            for u in range(steps.shape[1]):
                read.update(np.ascontiguousarray(steps[b, u]).tobytes())
                generator = np.random.Generator(np.random.Philox(key=int.from_bytes(read.digest(), "little")))
                found[b, u] = generator.standard_normal(found.shape[2:]) / np.sqrt(size)
        return torch.from_numpy(found).to(x.device)
