"""Bad input gets one clear sentence: what happened, what was needed, what to do."""

import math
import warnings
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from tests.models import BiLSTM, Tagger
from tests.perturbing import PERTURBING
from whence import (
    LRP,
    ConservationError,
    GradientXInput,
    InputError,
    NoRuleError,
    SensitivityAnalysis,
    TargetError,
    WeightsError,
    relevance,
)

METHODS = [LRP(), SensitivityAnalysis(), *PERTURBING]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.script
    def doubled(x: Tensor) -> Tensor:
        return x * 2


def by_way_of(x: Tensor) -> Tensor:
    return doubled(x)


@pytest.fixture
def model() -> BiLSTM:
    torch.manual_seed(0)
    return BiLSTM(4, 3, 5).double()


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, 6, 4, dtype=torch.float64)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 4, 4), (6,)])
def test_wrong_rank_or_width(model: BiLSTM, shape: tuple[int, ...], method: LRP) -> None:
    with pytest.raises(InputError, match=r"the model cannot run on inputs of shape \(.*\): .*(xpected|must be)"):
        relevance(model, torch.randn(shape).double(), target=0, method=method)


def test_wrong_precision(model: BiLSTM, x: Tensor) -> None:
    with pytest.raises(InputError, match="the model cannot run on inputs of shape"):
        relevance(model, x.float(), target=0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_inputs_that_are_not_finite_are_named(model: BiLSTM, x: Tensor, value: float) -> None:
    x[1, 2, 3] = value
    with pytest.raises(InputError, match=rf"inputs\[1, 2, 3\] is {value}; inputs must be finite"):
        relevance(model, x, target=0)
    with pytest.raises(InputError, match=r"inputs\[1, 2, 3\]"):
        relevance(model, x, target=0, lengths=[6, 6])
    with pytest.raises(InputError, match=r"inputs\[1\]\[1, 2, 3\] is"):
        relevance(model, (torch.zeros(2), x), target=0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["lstm.weight_hh_l0_reverse", "lstm.bias_ih_l0", "fc.weight"])
def test_weights_that_are_not_finite_are_named(model: BiLSTM, x: Tensor, value: float, name: str) -> None:
    model.get_parameter(name).data.view(-1)[3] = value
    with pytest.raises(WeightsError, match=rf"{name}\[.*\] is {value}; the model's weights must be finite"):
        relevance(model, x, target=0)


@pytest.mark.parametrize("shape", [(2, 0, 4), (0, 6, 4), (0, 4)])
def test_empty_sequences(model: BiLSTM, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="hold an empty sequence or no sample"):
        relevance(model, torch.zeros(shape).double(), target=0)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([6, 0], r"lengths\[1\] is 0; a sample has between 1 and 6 steps"),
        ([6, 7], r"lengths\[1\] is 7"),
        ([-1, 6], r"lengths\[0\] is -1"),
        ([6, 6, 6], r"lengths has 3 entries for inputs of shape \(2, 6, 4\); give one per sample"),
    ],
)
def test_wrong_lengths(model: BiLSTM, x: Tensor, lengths: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        relevance(model, x, target=0, lengths=lengths)


def test_lengths_of_what_has_none(model: BiLSTM, x: Tensor) -> None:
    with pytest.raises(InputError, match="packed and tell their own lengths"):
        relevance(model, pack_sequence([x[0], x[1]]), target=0, lengths=[6, 6])
    with pytest.raises(InputError, match="are no padded batch"):
        relevance(model, torch.zeros(3).double(), target=0, lengths=[3])


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (5, "target 5 does not exist: the model gave 5 scores per sample, so targets run 0–4"),
        (-6, "target -6 does not exist"),
        ([0, 5], "target 5 does not exist"),
        ([0, 1, 2], "target names 3 classes for 2 samples"),
        (None, "the model gave 5 scores per sample; say which to explain with target=0 … 4"),
        ("positive", "target 'positive' is not known"),
        (1.5, "target 1.5 is not known"),
        (True, "target True is not known"),
        ((1, 2, 3), r"target \(1, 2, 3\) is not \(time step, class\)"),
        ((1, 2), r"names a time step, but the model returned a tensor of shape \(2, 5\)"),
        (
            lambda output: output,
            r"callable returned a tensor of shape \(2, 5\); it must return one number per sample",
        ),
        (lambda output: torch.ones(2), "the score does not depend on the inputs"),
        (lambda output: 1.0, "the target callable returned a float; it must return one number per sample"),
    ],
)
def test_wrong_targets(model: BiLSTM, x: Tensor, target: Any, message: str, method: LRP) -> None:
    with pytest.raises(TargetError, match=message):
        relevance(model, x, target=target, method=method)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_output_that_is_not_one_score_per_sample(x: Tensor, method: LRP) -> None:
    lstm = nn.LSTM(4, 3, batch_first=True).double()
    with pytest.raises(TargetError, match=r"the model returned a tuple of 2 \(a tensor of shape \(2, 6, 3\), .*lambda output"):
        relevance(lstm, x, target=0, method=method)
    per_step = Tagger(lstm, "all", 2).double()
    with pytest.raises(TargetError, match=r"more than one score per sample and class; use target=\(time step, class\)"):
        relevance(per_step, x, target=0, method=method)
    with pytest.raises(TargetError, match="time step 6 does not exist: the model gave 6 time steps, so steps run 0–5"):
        relevance(per_step, x, target=(6, 0), method=method)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool])
def test_token_ids_want_an_embedding_first(model: BiLSTM, dtype: torch.dtype) -> None:
    with pytest.raises(
        InputError, match=r"embed first, or explain the embedding's output|give real numbers, or token ids for an nn.Embedding"
    ):
        relevance(model, torch.zeros(2, 6, 4, dtype=dtype), target=0)


def test_inputs_that_are_no_tensors(model: BiLSTM) -> None:
    with pytest.raises(InputError, match="inputs holds a list; give a float tensor, or a tuple or dictionary of them"):
        relevance(model, cast(Any, [[1.0]]), target=0)
    with pytest.raises(InputError, match="inputs is an empty tuple"):
        relevance(model, (), target=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": -1e-3}, r"epsilon is -0.001; a stabiliser must be a finite number ≥ 0"),
        ({"epsilon": math.nan}, "epsilon is nan"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"delta": 1.5}, "delta is 1.5; .* between 0 and 1"),
        ({"delta": math.nan}, "delta is nan"),
        ({"stabiliser": "half"}, "stabiliser is 'half'"),
        ({"head": "zplus"}, 'head is .zplus.; the dense layers of a head follow "epsilon", "gamma" or "alpha-beta"'),
        ({"head": "gamma", "gamma": -1}, "gamma is -1; what favours one sign must be a finite number ≥ 0"),
        ({"head": "gamma", "gamma": "much"}, "gamma is 'much'; it must be a number"),
        (
            {"head": "alpha-beta", "alpha": 0.5},
            "alpha is 0.5; it must be a finite number ≥ 1, such as 2, and beta is alpha − 1",
        ),
        ({"product": "sum"}, "product is 'sum'"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LRP(**settings)


def test_epsilon_zero_is_refused_only_where_it_divides_by_zero(model: BiLSTM, x: Tensor) -> None:
    relevance(model, x, target=0, method=LRP(epsilon=0.0)).check(1e-9)
    still = Tagger(nn.LSTM(4, 3, bias=False, batch_first=True), "last", 2).double()  # at x = 0 its cell is exactly 0
    relevance(still, 0 * x, target=0, method=LRP(epsilon=0.0)).check(1e-9)  # and gets no relevance that could be divided
    with pytest.raises(InputError, match="epsilon=0 divides by zero: a weighted sum in 'lstm' is exactly 0; use epsilon > 0"):
        relevance(still, 0 * x, target=0, method=LRP(epsilon=0.0, delta=1.0))  # unlike its share of the head's bias
    relevance(still, 0 * x, target=0, method=LRP(epsilon=1e-9, delta=1.0)).check(1e-9)
    linear = nn.Linear(4, 2).double()
    linear.bias.data.zero_()
    zeros, method = torch.zeros(1, 4).double(), LRP(epsilon=0.0, delta=1.0)
    with pytest.raises(InputError, match="a weighted sum in '0' is exactly 0"):
        relevance(nn.Sequential(linear, nn.ReLU(), nn.Linear(2, 2).double()), zeros, target=0, method=method)


def test_gradient_methods_have_no_books_to_check(model: BiLSTM, x: Tensor) -> None:
    with pytest.raises(ConservationError, match=r"GradientXInput does not share out the score"):
        relevance(model, x, target=0, method=GradientXInput()).check()


def test_a_users_own_error_is_passed_on(x: Tensor) -> None:
    class Raising(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("the user's own")

    for method in METHODS:
        with pytest.raises(RuntimeError, match=r"^the user's own$"):
            relevance(Raising(), x, target=0, method=method)


def test_wrong_kinds_of_arguments(model: BiLSTM, x: Tensor) -> None:
    for method in cast(list[Any], ["lpr", LRP, None.__class__]):
        with pytest.raises(InputError, match=r"give a method with its settings, such as method=whence.LRP\(\)"):
            relevance(model, x, target=0, method=method)
    with pytest.raises(InputError, match=r"model is a function; it must be a torch.nn.Module"):
        relevance(cast(Any, lambda x: x), x, target=0)
    for lengths in cast(list[Any], [5, [2.7, 3.0], "66", torch.tensor([[6], [6]]), [True, 6]]):
        with pytest.raises(InputError, match="give one whole number per sample"):
            relevance(model, x, target=0, lengths=lengths)
    with pytest.raises(InputError, match="a tuple that holds a PackedSequence"):
        relevance(model, cast(Any, (pack_sequence([x[0], x[1]]),)), target=0)
    with pytest.raises(InputError, match="sparse, nested or without numbers"):
        relevance(model, x.to_sparse(), target=0)
    with pytest.raises(InputError, match="args is a tuple of further arguments"):
        relevance(model, x, target=0, args=cast(Any, None))
    with pytest.raises(InputError, match="epsilon is '1'; it must be a number"):
        LRP(epsilon=cast(Any, "1"))
    with pytest.raises(TargetError, match="it must return one number per sample"):
        relevance(model, x, target=lambda output: output.sum())
    with pytest.raises(TargetError, match=r"sample 1, of length 2: time step 3 does not exist"):
        relevance(Tagger(nn.LSTM(4, 3, batch_first=True), "all", 2).double(), x, target=(3, 0), lengths=[6, 2])


def test_modules_that_cannot_be_followed(x: Tensor) -> None:
    class Calls(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return by_way_of(x).sum(1)

    lazy = nn.Sequential(nn.LazyLinear(2)).double()
    with pytest.raises(InputError, match="'0' has not seen any input yet; run the model once"):
        relevance(lazy, x, target=0)
    with pytest.raises(NoRuleError, match="calls the scripted function 'doubled', which cannot be followed; run Python with"):
        relevance(Calls(), x, target=0)


def test_a_mask_of_infinities_may_be_a_buffer(model: BiLSTM, x: Tensor) -> None:
    model.register_buffer("mask", torch.full((3, 3), -math.inf).triu(1))
    relevance(model, x, target=0).check()
    cast(Tensor, model.mask)[0, 0] = math.nan
    with pytest.raises(WeightsError, match=r"mask\[0, 0\] is nan"):
        relevance(model, x, target=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_is_explained_as_the_original(model: BiLSTM, x: Tensor) -> None:
    compiled = cast(nn.Module, torch.compile(model))
    expected = relevance(model, x, target=0)
    assert relevance(compiled, x, target=0).relevance.equal(expected.relevance)
    model.lstm = cast(nn.LSTM, torch.compile(model.lstm))
    assert relevance(model, x, target=0).absorbed.keys() == expected.absorbed.keys()


def test_a_result_prints_its_sums(model: BiLSTM, x: Tensor) -> None:
    printed = repr(relevance(model, x, target=0))
    assert "relevance (2, 6, 4)" in printed
    assert "lstm.l0.bias" in printed
    assert len(printed.splitlines()) < 12


class Reader(nn.Module):
    """A large table of words, of which a text needs few."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(2**15, 8), nn.Linear(8, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.words(ids).sum(1))


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_a_weight_that_was_spoilt_behind_pytorchs_back_is_named(method: Any) -> None:
    model, ids = Reader(), torch.tensor([[1, 2, 3]])
    relevance(model, ids, target=0, method=method)
    model.words.weight.data[2, 1] = math.nan
    with pytest.raises(WeightsError, match=r"words.weight\[2, 1\] is nan"):
        relevance(model, ids, target=0, method=method)


def test_a_derivative_that_is_not_finite_is_refused() -> None:
    class Root(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input * 0).sub(self.bias).abs().sqrt()

    with pytest.raises(InputError, match="derivative is not finite"):
        relevance(Root(4, 2), torch.randn(3, 4), target=0, method=GradientXInput())
