"""Samples of a batch stay apart, also where constants were put in their place."""

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import relevance
from whence.engine.samples import completed


class Masked(nn.Module):
    """Adds a layer's output to its input, but zeros for some samples."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.head = nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((x + self.inner(x).masked_fill(x[:, :1] < 0, 0.0)).tanh())


def test_nobodys_elements_go_to_who_owns_the_rest_of_an_axis() -> None:
    owner = torch.tensor([[1.0, 0, 1], [2, 2, 0]])
    assert completed(owner).tolist() == [[1, 1, 1], [2, 2, 2]]
    assert completed(torch.tensor([1.0, 0, 2])).tolist() == [1, 0, 2]


def test_a_sample_without_an_owner_is_not_given_to_another() -> None:
    owner = torch.tensor([[1.0, 1, 1], [0, 0, 0]])
    assert completed(owner).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert completed(owner, keep=2).tolist() == [[1, 1, 1], [0, 0, 0]]


def test_a_sample_whose_layer_is_masked_is_explained_by_what_goes_past_it() -> None:
    model, x = Masked().double(), torch.tensor([[1.0, 2, 3], [-1, 2, 3]], dtype=torch.float64)
    found = relevance(model, x, target=1).check()
    for n in range(2):
        assert_close(found.relevance[n : n + 1], relevance(model, x[n : n + 1], target=1).relevance)


class Crossed(nn.Module):
    """Puts every sample beside another one, adds a constant, and takes them apart again."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        one, other = (torch.cat([h, h.flip(0)], 1) + 1.0).tanh().chunk(2, 1)
        return self.head(one - 0.3 * other.flip(0))


def test_each_sample_has_its_own_account_where_they_lie_crosswise() -> None:
    model, x = Crossed().double(), torch.randn(2, 3, dtype=torch.float64)
    found = relevance(model, x, target=1).check()
    for n in range(2):
        alone = relevance(model, x[n : n + 1], target=1)
        assert_close(found.relevance[n], alone.relevance[0])
        assert found.absorbed.keys() == alone.absorbed.keys()
        for name in found.absorbed:
            assert_close(found.absorbed[name][n], alone.absorbed[name][0])


def test_of_two_samples_one_may_be_all_constants() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.masked_fill(x[:, :1] < 0, 0.0).sum(1)

    found = relevance(Masked(), torch.tensor([[1.0, 2.0], [-1.0, 2.0]])).check()
    assert_close(found.score, torch.tensor([3.0, 0.0]))
    assert_close(found.relevance, torch.tensor([[1.0, 2.0], [0.0, 0.0]]), rtol=0, atol=1e-3)


def test_of_two_bags_one_may_be_empty() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(6, 4, mode="sum", padding_idx=0), nn.Linear(4, 2, bias=False))
    ids = torch.tensor([[0, 0, 0], [3, 0, 5]])
    found = relevance(model, ids, target=0).check()
    assert_close(found.score, model(ids)[:, 0].detach())
    assert not found.relevance[0].any()
