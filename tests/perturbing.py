"""The methods that run a model on other inputs than the given ones, with settings for small models."""

from whence import IntegratedGradients, Occlusion, Random, Shapley, SmoothGrad
from whence.methods.method import Method

PERTURBING: list[Method] = [
    IntegratedGradients(steps=8),
    Occlusion(),
    Occlusion(window=2),
    SmoothGrad(samples=3),
    Shapley(samples=4),
    Random(),
]
