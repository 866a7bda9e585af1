"""A value split for contextual decomposition (Murdoch et al., 2018): what a phrase gives, what constants give, and the rest.

A value is x = β + γ + b. β comes from the phrase, b from biases and other constants alone, γ is the rest: the words outside,
and what they and the phrase give together. A step of a recurrent layer leaves no b: it goes to β or to γ.

γ need not be computed. Every formula for β contains it as x − β alone, and x and b are the same for all phrases. So only β has
an axis of phrases, and hundreds of phrases cost little more than one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Parts(NamedTuple):
    """A value, and its parts for N phrases."""

    whole: Tensor  # x (*)
    phrase: Tensor  # β (N, *)
    bias: Tensor  # b (*)

    @property
    def rest(self) -> Tensor:
        """γ (N, *)."""
        return self.whole - self.phrase - self.bias


def by_part(function: Callable[[Tensor], Tensor], parts: Parts) -> Parts:
    """A linear function without a constant, which keeps the parts apart."""
    return Parts(*map(function, parts))


def joined(function: Callable[[Sequence[Tensor]], Tensor], several: Sequence[Parts]) -> Parts:
    """A linear function of several values without a constant, such as `torch.cat`."""
    whole, phrase, bias = zip(*several, strict=True)
    return Parts(function(whole), function(phrase), function(bias))


def added(one: Parts, other: Parts) -> Parts:
    """A sum, part by part."""
    return Parts(one.whole + other.whole, one.phrase + other.phrase, one.bias + other.bias)


def linear(parts: Parts, weight: Tensor, bias: Tensor | None = None) -> Parts:
    """A linear layer; its bias is a constant."""
    found = by_part(lambda each: each @ weight.T, parts)
    return found if bias is None else found._replace(whole=found.whole + bias, bias=found.bias + bias)


def apart(function: Callable[[Tensor], Tensor], parts: Parts) -> Parts:
    """An elementwise function f, made linear: the bias comes first, and the average is taken over both orders of β and γ.

        β' = ½ [ f(β + b) − f(b)  +  f(x) − f(γ + b) ]          b' = f(b)

    γ' is the same with β and γ exchanged, so that the three parts add up to f(x).
    """
    whole, bias = function(parts.whole), function(parts.bias)
    first, last = function(parts.phrase + parts.bias) - bias, whole - function(parts.whole - parts.phrase)
    return Parts(whole, (first + last) / 2, bias)


def product(one: Parts, other: Parts) -> Parts:
    """An elementwise product: what no γ takes part in stays with the phrase, and what neither takes part in, with the bias.

    β = β₁ β₂ + β₁ b₂ + b₁ β₂          b = b₁ b₂          γ = everything else
    """
    phrase = one.phrase * (other.phrase + other.bias) + one.bias * other.phrase
    return Parts(one.whole * other.whole, phrase, one.bias * other.bias)


def settled(parts: Parts, inside: Tensor) -> Parts:
    """The bias given to the phrase at steps inside it (1 in `inside`, (N, ..., 1)), and to the rest at all others."""
    return Parts(parts.whole, parts.phrase + inside * parts.bias, torch.zeros_like(parts.bias))
