"""The rules on their own: nothing is lost but what bias and stabiliser absorb."""

import torch
from hypothesis import given
from torch.testing import assert_close

from tests.oracle import lstm as oracle
from tests.strategies import LRPS, Linear, linear_layers
from whence import LRP
from whence.equations import (
    absorbed_by_bias,
    absorbed_by_stabiliser,
    coefficient,
    linear_epsilon,
    share,
    sign,
    stabilise,
    sum_epsilon,
)


@given(layer=linear_layers(), method=LRPS)
def test_linear_epsilon_loses_only_what_bias_and_stabiliser_absorb(layer: Linear, method: LRP) -> None:
    rules, n = method.rules, layer.x.shape[1]
    z = layer.x @ layer.weight.T + layer.bias
    q = coefficient(z, r_out=layer.r_out, epsilon=rules.epsilon)
    r_in = linear_epsilon(layer.x, layer.weight, q=q, share=share(z, q=q, bias=layer.bias, fan_in=n, rules=rules))
    absorbed = absorbed_by_bias(layer.bias, q=q, rules=rules) + absorbed_by_stabiliser(z, q=q, rules=rules)
    assert_close(r_in.sum(-1) + absorbed.sum(-1), layer.r_out.sum(-1))


@given(layer=linear_layers(), method=LRPS)
def test_linear_epsilon_is_the_oracle(layer: Linear, method: LRP) -> None:
    rules, n = method.rules, layer.x.shape[1]
    z = layer.x @ layer.weight.T + layer.bias
    q = coefficient(z, r_out=layer.r_out, epsilon=rules.epsilon)
    r_in = linear_epsilon(layer.x, layer.weight, q=q, share=share(z, q=q, bias=layer.bias, fan_in=n, rules=rules))
    for b in range(len(z)):
        expected = oracle.weighted(
            *(t.numpy() for t in (layer.x[b], layer.weight, layer.bias, z[b], layer.r_out[b])),
            n=n, epsilon=rules.epsilon, delta=rules.delta, shared=rules.stabiliser == "shared",
        )  # fmt: skip
        assert_close(r_in[b], torch.from_numpy(expected))


@given(layer=linear_layers(), method=LRPS)
def test_relevance_is_linear_in_what_arrives(layer: Linear, method: LRP) -> None:
    rules = method.rules
    z = layer.x @ layer.weight.T + layer.bias

    def back(r_out: torch.Tensor) -> torch.Tensor:
        q = coefficient(z, r_out=r_out, epsilon=rules.epsilon)
        return linear_epsilon(layer.x, layer.weight, q=q, share=share(z, q=q, bias=layer.bias, fan_in=3, rules=rules))

    assert_close(back(2 * layer.r_out + 1), 2 * back(layer.r_out) + back(torch.ones_like(layer.r_out)))


def test_zero_counts_as_positive() -> None:
    z = torch.tensor([0.0, -0.0, 2.0, -2.0])
    assert sign(z).tolist() == [1, 1, 1, -1]
    assert_close(stabilise(z, 0.5), torch.tensor([0.5, 0.5, 2.5, -2.5]))


def test_the_terms_of_a_sum_share_the_stabiliser() -> None:
    a, b = torch.tensor([2.0]), torch.tensor([-2.0])
    q = coefficient(a + b, r_out=torch.tensor([3.0]), epsilon=0.1)
    shared = share(a + b, q=q, bias=None, fan_in=2, rules=LRP(epsilon=0.1).rules)
    assert_close(sum_epsilon(a, q=q, share=shared) + sum_epsilon(b, q=q, share=shared), torch.tensor([3.0]))


def test_without_a_stabiliser_a_neuron_without_relevance_asks_nothing() -> None:
    found = coefficient(torch.tensor([0.0, 0.0, 4.0]), r_out=torch.tensor([0.0, 1.0, 2.0]), epsilon=0.0)
    assert found.tolist() == [0.0, float("inf"), 0.5]
