"""Changes in place are followed, or refused; the model's numbers are never other than its own."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from tests.engine.test_rules import Model, W, X, explained
from whence import LRP, NoRuleError, relevance


def zeros(x: Tensor) -> Tensor:
    return torch.zeros(2, 5, 4, dtype=x.dtype)


def filled(x: Tensor) -> Tensor:
    out = zeros(x)
    for t in range(5):
        out[:, t] = torch.tanh(x[:, t] @ W)
        out[:, t] *= 2
    return out


@pytest.mark.parametrize(
    ("changing", "pure"),
    [
        (lambda x: (x @ W).lerp_(torch.tanh(x), 0.3), lambda x: 0.7 * (x @ W) + 0.3 * torch.tanh(x)),
        (lambda x: (x @ W).addcmul_(x.sigmoid(), x.tanh()), lambda x: x @ W + x.sigmoid() * x.tanh()),
        (lambda x: (x[:, 0] @ W).addmm_(x[:, 1], W), lambda x: x[:, 0] @ W + x[:, 1] @ W),
        (filled, lambda x: 2 * torch.tanh(x @ W)),
        (lambda x: zeros(x).copy_(x).mul_(2).relu_(), lambda x: (2 * x).relu()),
        (lambda x: F.relu(x @ W, inplace=True).add_(x), lambda x: F.relu(x @ W) + x),
        (lambda x: nn.Sequential(nn.ReLU(inplace=True), nn.Tanh())(x), lambda x: x.relu().tanh()),
        (lambda x: (x @ W).requires_grad_(False).tanh_(), lambda x: (x @ W).tanh()),
    ],
)
def test_a_change_in_place_is_the_same_as_without(
    changing: Callable[[Tensor], Tensor], pure: Callable[[Tensor], Tensor]
) -> None:
    torch.manual_seed(1)
    found = explained(changing)
    torch.manual_seed(1)
    assert_close(found.score, Model(pure)(X)[:, 0].detach())
    assert_close(found.relevance, explained(pure).relevance, rtol=1e-10, atol=1e-13)


def twice(x: Tensor) -> Tensor:
    z = x @ W
    z.mul_(2.0)
    z[:, 0].mul_(3.0)
    return z


def after_relu(x: Tensor) -> Tensor:
    z = F.relu(x @ W, inplace=True)
    z[:, 1:].add_(3.0)
    return z


def after_filling(x: Tensor) -> Tensor:
    z = zeros(x)
    z[:, :] = x @ W
    z[:, 0].mul_(3.0)
    return z


def through_pieces(x: Tensor) -> Tensor:
    z = x @ W
    z += 1
    z.split(2, dim=-1)[0].tanh_()
    return z


def part_zeroed(x: Tensor) -> Tensor:
    y = x @ W
    v = y[:, 0]
    v *= 0.5
    v.zero_()
    return y


def copied_over(x: Tensor) -> Tensor:
    a, b = x.tanh(), torch.zeros_like(x)
    view = a[:, :1]
    a += 1
    b.copy_(a)
    return b + view


def counted(x: Tensor) -> Tensor:
    t, found = torch.zeros(1, 1, dtype=x.dtype), list[Tensor]()
    for n in range(5):
        found.append(x[:, n] @ W + F.linear(t, W[:1].T))
        t += 1
    return torch.stack(found, 1)


def flattened(x: Tensor) -> Tensor:
    z = x @ W
    z += 1
    z.view(-1).tanh_()
    return z


@pytest.mark.parametrize(
    ("function", "pure"),
    [
        (twice, lambda x: torch.cat([6 * (x @ W)[:, :1], 2 * (x @ W)[:, 1:]], 1)),
        (after_relu, lambda x: torch.cat([F.relu(x @ W)[:, :1], F.relu(x @ W)[:, 1:] + 3], 1)),
        (after_filling, lambda x: torch.cat([3 * (x @ W)[:, :1], (x @ W)[:, 1:]], 1)),
        (through_pieces, lambda x: torch.cat([(x @ W + 1)[..., :2].tanh(), (x @ W + 1)[..., 2:]], -1)),
        (flattened, lambda x: (x @ W + 1).tanh()),
        (lambda x: (x @ W).unsqueeze_(0)[0], lambda x: x @ W),
        (lambda x: (x @ W).transpose_(1, 2).mT, lambda x: x @ W),
        (part_zeroed, lambda x: torch.cat([torch.zeros_like(x[:, :1]), (x @ W)[:, 1:]], 1)),
        (lambda x: x.amax(1).add_(0.3).relu(), lambda x: (x.amax(1) + 0.3).relu()),
        (copied_over, lambda x: (x.tanh() + 1) + (x.tanh() + 1)[:, :1]),
        (counted, lambda x: x @ W + torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]], dtype=x.dtype) @ W[:1]),
    ],
)
def test_a_change_through_a_view_is_seen_by_the_whole(
    function: Callable[[Tensor], Tensor], pure: Callable[[Tensor], Tensor]
) -> None:
    torch.manual_seed(1)
    found = explained(function, LRP(epsilon=0.0))
    torch.manual_seed(1)
    assert_close(found.score, Model(pure)(X)[:, 0].detach())
    assert_close(found.relevance, explained(pure, LRP(epsilon=0.0)).relevance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.tanh(x, out=zeros(x)), "writes into a given tensor"),
        (lambda x: torch.exp(x, out=x), "writes into a given tensor"),
        (lambda x: torch.from_numpy(x.numpy() * 2) + x, "numbers leave the tensors"),
        (lambda x: x + torch.full_like(x, x[0, 0, 0]), "no rule for torch.full_like"),
    ],
)
def test_what_would_escape_the_record_is_refused(function: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(NoRuleError, match=message):
        relevance(Model(function), X[:1], target=0)


def discounted(x: Tensor) -> Tensor:
    discount, total = torch.ones(1, dtype=x.dtype), torch.zeros(2, 4, dtype=x.dtype)
    for t in range(5):
        total += (x[:, t] @ W) * discount
        discount *= 0.5
    return total.tanh()


def accumulated(x: Tensor) -> Tensor:
    out = torch.zeros(2, 4, dtype=x.dtype)
    for t in range(5):
        out += torch.tanh(x[:, t] @ W)
    return out


def slice_by_slice(x: Tensor) -> Tensor:
    out = x.new_zeros(2, 5, 4)
    for t in range(5):
        out[:, t] += torch.tanh(x[:, t] @ W)
    return out


def walking(x: Tensor) -> Tensor:
    index, mask = torch.zeros(2, 1, 4, dtype=torch.long), torch.zeros(2, 5, 1, dtype=torch.bool)
    total = torch.zeros(2, 4, dtype=x.dtype)
    for t in range(5):
        mask[:, t] = True
        total = total + x.gather(1, index)[:, 0] + x.masked_fill(~mask, 0.0).sum(1)
        index += t < 4
    return total


def reset(x: Tensor) -> Tensor:
    h = torch.tanh(x[:, 0])
    kept = h + 1
    h.zero_()
    g = torch.tanh(x[:, 1])
    g.copy_(torch.ones(4))
    return kept + h + g + x[:, 2]


@pytest.mark.parametrize("method", [LRP(), LRP(delta=1.0), LRP(epsilon=0.3, stabiliser="absorbed")], ids=str)
@pytest.mark.parametrize(
    ("changing", "pure"),
    [
        (discounted, lambda x: torch.as_tensor(sum((x[:, t] @ W) * 0.5**t for t in range(5))).tanh()),
        (accumulated, lambda x: sum(torch.tanh(x[:, t] @ W) for t in range(5))),
        (slice_by_slice, lambda x: torch.tanh(x @ W) + torch.zeros(4).double()),
        (walking, lambda x: sum(x[:, t] + x[:, : t + 1].sum(1) for t in range(5))),
        (reset, lambda x: torch.tanh(x[:, 0]) + 1 + 1 + x[:, 2]),
    ],
)
def test_constants_that_change_are_read_as_they_were(
    changing: Callable[[Tensor], Tensor], pure: Callable[[Tensor], Tensor], method: LRP
) -> None:
    found, expected = explained(changing, method), explained(pure, method)
    assert_close(found.score, expected.score)
    if changing not in (walking, slice_by_slice) or not method.rules.shares:  # there the constants they start from count in N
        assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-12)


def test_a_changed_view_can_be_put_elsewhere() -> None:

    class Elsewhere(nn.Module):
        def __init__(self, start: str) -> None:
            super().__init__()
            self.start, self.out = start, nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = x.clone() if self.start == "input" else torch.zeros_like(x)
            v = h[:, 0]
            if self.start == "input":
                v.mul_(2)
            else:
                v.add_(x[:, 0])
            h[:, 1] = v
            return self.out(h.sum(1))

    for start in ("input", "zeros"):
        model, x = Elsewhere(start).double(), torch.randn(2, 3, 4).double()
        result = relevance(model, x, target=0)
        assert_close(result.score, model(x)[:, 0].detach())
        assert not result.relevance[:, 1].any()  # overwritten


def test_a_long_loop_of_writes_is_explained() -> None:
    """Many hundred writes into one tensor: no recursion, and time that grows with their number."""

    class Filling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            out = x.new_zeros(len(x), x.shape[1], 3)
            for t in range(x.shape[1]):
                out[:, t] = torch.sigmoid(self.x(x[:, t]))
            return out

    model, x = Filling().double(), torch.randn(1, 1200, 4).double()
    result = relevance(model, x, target=(1199, 0))
    assert_close(result.score, model.x(x[:, 1199])[:, 0].detach())
    assert not result.relevance[:, :1199].any()


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0])
def test_biases_of_a_tensor_whose_parts_are_activated_one_by_one(delta: float) -> None:
    def parts(z: Tensor) -> Tensor:
        z[:, 0].tanh_()
        z[:, 1].tanh_()
        return z

    def whole(z: Tensor) -> Tensor:
        return torch.cat([z[:, :2].tanh(), z[:, 2:]], 1)

    class Activated(nn.Module):
        def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.change, self.inner, self.out = change, nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.change(self.inner(x)).sum(1))

    x, method = torch.randn(3, 5, 4).double(), LRP(delta=delta)
    one, other = (relevance(Activated(change).double(), x, target=0, method=method).check(1e-10) for change in (parts, whole))
    assert_close(one.relevance, other.relevance, rtol=1e-10, atol=1e-12)
