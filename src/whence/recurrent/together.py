"""What the paths that run all directions of a layer together share: tensors are (D, T, B, ·), D directions first."""

from collections.abc import Sequence

import torch
from torch import Tensor


def outputs(h: Tensor, lengths: Tensor | None) -> list[Tensor]:
    """For every direction of h (D, T + 1, B, H) the state after every step (T, B, H), zero where the sequence has ended."""
    found = h[:, 1:]
    if lengths is not None:
        steps = torch.arange(found.shape[1], device=found.device)
        found = found * (steps[:, None] < lengths)[..., None]
    return list(found)


def by_step(r_outputs: Sequence[Tensor | None]) -> Sequence[Tensor] | None:
    """The relevance of every direction's outputs (K, T, B, H) as one (D, K, B, H) for every step; None where none arrives."""
    given = [each for each in r_outputs if each is not None]
    return torch.stack(given).contiguous().unbind(2) if given else None


def of_inputs(x: Tensor, q: Tensor, shares: Tensor, u: Tensor) -> Tensor:
    """R_x = x ⊙ (q U) + share, for all steps at once: x (T, B, E), q (T, K, B, H), shares (T, K, B, 1) to (K, T, B, E)."""
    back = (q.view(-1, q.shape[-1]) @ u).view(*q.shape[:-1], u.shape[-1])
    return torch.addcmul(shares, back, x[:, None]).transpose(0, 1)
