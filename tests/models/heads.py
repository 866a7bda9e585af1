"""Heads of a model: functions of the logits (B, T, 3) of a linear layer at every step, as people end their models."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn import functional as F

Head = Callable[[Tensor], Tensor]


def last(head: Head) -> Head:
    """A head of the last step's logits."""
    return lambda z: head(z[:, -1])


HEADS: dict[str, Head] = {
    "mean of sigmoids": lambda z: z.sigmoid().mean(1),
    "4 sigmoid + 1": last(lambda z: 4 * z.sigmoid() + 1),
    "softplus + 1e-6": last(lambda z: F.softplus(z) + 1e-6),
    "log sigmoid": last(lambda z: z.sigmoid().log()),
    "sum of log sigmoids": lambda z: z.sigmoid().log().sum(1),
    "softmax, clamped": last(lambda z: z.softmax(-1).clamp(1e-6, 1)),
    "1 − p": last(lambda z: 1 - z.sigmoid()),
    "ensemble": lambda z: (z[:, -1].softmax(-1) + z[:, -2].softmax(-1)) / 2,
    "mean of softmaxes": lambda z: z.softmax(-1).mean(1),
    "noisy or": lambda z: 1 - (1 - z.sigmoid()).prod(1),
    "survival": lambda z: (1 - z.sigmoid()).cumprod(1)[:, -1],
    "pooled by weight": lambda z: (z.sigmoid() * z.sigmoid()).sum(1) / z.sigmoid().sum(1),
    "expected value": last(lambda z: (z.softmax(-1) @ torch.arange(3.0, dtype=z.dtype))[:, None]),
    "exp + ½": last(lambda z: z.exp() + 0.5),
    "1 / (1 + exp)": last(lambda z: 1 / (1 + z.exp())),
    "log-sum-exp over time": lambda z: z.logsumexp(1),
    "mean of log_softmaxes": lambda z: z.log_softmax(-1).mean(1),
    "p (1 − p)": last(lambda z: z.sigmoid() * (1 - z.sigmoid())),
    "hazards": lambda z: (z.sigmoid() * F.pad(1 - z.sigmoid(), (0, 0, 1, 0), value=1.0).cumprod(1)[:, :-1]).sum(1),
}
# heads that end in a normaliser are explained from their logits
NORMALISED: dict[str, Head] = {
    "softmax": last(lambda z: z.softmax(-1)),
    "log_softmax": last(lambda z: z.log_softmax(-1)),
    "log softmax": last(lambda z: z.softmax(-1).log()),
    "z − logsumexp": last(lambda z: z - z.logsumexp(-1, keepdim=True)),
    "Categorical.logits": last(lambda z: Categorical(logits=z, validate_args=False).logits),
}
