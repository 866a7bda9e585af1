"""Embeddings that are more than a table (subclasses, hooks, parametrisations, renormed rows): scores are the module's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm
from torch.testing import assert_close

from whence import LRP, GradientXInput, InputError, Pipeline, explain, relevance
from whence.text.tokenizer import TreebankTokenizer
from whence.text.vocabulary import Vocabulary

WORDS = Vocabulary(["good", "bad", "film"])


class Scaled(nn.Embedding):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 3.0


class Halved(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight * 0.5


class OneHot(nn.Embedding):
    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.one_hot(input, self.num_embeddings).to(self.weight) @ self.weight


def hooked() -> nn.Embedding:
    layer = nn.Embedding(4, 6)
    layer.register_forward_hook(lambda module, args, output: output.tanh())
    return layer


def parametrised() -> nn.Embedding:
    layer = nn.Embedding(4, 6)
    parametrize.register_parametrization(layer, "weight", Halved())
    return layer


EMBEDDINGS: dict[str, Callable[[], Any]] = {
    "plain": lambda: nn.Embedding(4, 6),
    "padding": lambda: nn.Embedding(4, 6, padding_idx=1),
    "subclass": lambda: Scaled(4, 6),
    "hook": hooked,
    "parametrised": parametrised,
    "weight norm": lambda: weight_norm(nn.Embedding(4, 6)),
    "renormed": lambda: nn.Embedding(4, 6, max_norm=0.5),
    "renormed by another norm": lambda: nn.Embedding(4, 6, max_norm=0.5, norm_type=1.0),
}


class Reader(nn.Module):
    def __init__(self, words: nn.Embedding) -> None:
        super().__init__()
        self.words, self.gru, self.out = words, nn.GRU(6, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.gru(self.words(ids))[0][:, -1])


def reader(kind: str) -> Reader:
    torch.manual_seed(0)
    return Reader(EMBEDDINGS[kind]()).double()


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_explained_scores_are_the_modules_own(kind: str, method: Any) -> None:
    model = reader(kind)
    explanation = explain(Pipeline(model, TreebankTokenizer(), WORDS, ("no", "yes")), "good film, bad", method=method)
    ids = torch.tensor([WORDS.ids(["good", "film", ",", "bad"])])
    result = relevance(reader(kind), ids, target="predicted", method=method)
    expected = reader(kind)(ids)[0]
    assert_close(torch.tensor(list(explanation.scores.values()), dtype=torch.float64), expected)
    assert_close(result.score[0], expected.max())
    assert_close(torch.tensor(explanation.relevance, dtype=torch.float64), result.relevance.sum(-1)[0])
    if isinstance(method, LRP):
        assert_close(sum(explanation.relevance) + sum(explanation.absorbed.values()), explanation.score)


def test_explaining_leaves_rows_that_are_renormed_in_place() -> None:
    model = reader("renormed")
    before = model.words.weight.detach().clone()
    explain(Pipeline(model, TreebankTokenizer(), WORDS, ("no", "yes")), "good film")
    assert model.words.weight.equal(before)


def test_two_parametrised_tables_are_told_apart() -> None:
    class Two(Reader):
        def __init__(self) -> None:
            super().__init__(parametrised())
            self.more = parametrised()

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.gru(self.words(ids) + self.more(ids) + self.words(ids))[0][:, -1])

    with pytest.raises(InputError, match=r"go into 2 layers \(words, more\)"):
        relevance(Two(), torch.tensor([[1, 2]]), target=0)
    relevance(Two(), torch.tensor([[1, 2]]), target=0, embedding="more").check()


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_an_embedding_that_looks_nothing_up_is_refused_with_that_reason(method: Any) -> None:
    pipeline = Pipeline(Reader(OneHot(4, 6)), TreebankTokenizer(), WORDS, ("no", "yes"))
    with pytest.raises(InputError, match="did not look up the ids"):
        explain(pipeline, "good film", method=method)


def write_item(ids: Tensor) -> Tensor:
    ids = ids.clone()
    ids[ids == 2] = 0
    return ids


def write_view(ids: Tensor) -> Tensor:
    ids = ids.clone()
    ids[:, 0].fill_(3)
    return ids


def write_flat(ids: Tensor) -> Tensor:
    ids = ids.clone()
    ids.view(-1)[0] = 0
    return ids


def write_by_numpy(ids: Tensor) -> Tensor:
    ids = ids.clone()
    ids.numpy()[:, 0] = 0
    return ids


def clamp_unknown(ids: Tensor) -> Tensor:
    ids = ids.clone()
    ids[ids >= 4] = 0
    return ids


class Writing(Reader):
    """Changes its ids in some way before it looks them up."""

    def __init__(self, write: Callable[[Tensor], Tensor]) -> None:
        super().__init__(nn.Embedding(4, 6))
        self.write = write

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(self.write(ids))


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
@pytest.mark.parametrize("write", [write_item, clamp_unknown, lambda ids: ids.clamp(max=3), lambda ids: (ids * 2 + 1) % 4])
def test_ids_that_are_computed_with_are_explained_as_they_are_looked_up(write: Callable[[Tensor], Tensor], method: Any) -> None:
    ids = torch.tensor([[1, 2, 3], [2, 1, 300 if write is not write_item else 2]])
    model = Writing(write)
    found = relevance(model, ids, target=0, method=method)
    model.write = torch.clone
    assert_close(found.relevance, relevance(model, write(ids), target=0, method=method).relevance)


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
@pytest.mark.parametrize("write", [write_view, write_flat, write_by_numpy])
def test_ids_that_are_written_over_are_refused(write: Callable[[Tensor], Tensor], method: Any) -> None:
    ids = torch.tensor([[1, 2, 3], [2, 1, 2]])
    with pytest.raises(InputError, match="are changed before they are looked up"):
        relevance(Writing(write), ids, target=0, method=method)


def test_ids_that_are_copied_are_followed() -> None:
    model, ids = Writing(lambda ids: ids.clone()), torch.tensor([[1, 2, 3], [2, 1, 2]])
    assert_close(relevance(model, ids, target=0).score, model(ids)[:, 0].detach())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_the_rows_of_a_bag_are_renormed(mode: str, method: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(9, 4, mode=mode, max_norm=0.5), nn.Linear(4, 2)).double()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert_close(relevance(model, ids, target=0, method=method).score, model(ids)[:, 0].detach())


def test_a_table_is_not_taken_for_its_copy() -> None:
    """One frozen and one tuned channel of the same vectors."""

    class Channels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.static, self.out = nn.Embedding(9, 4), nn.Linear(8, 2)
            self.tuned = nn.Embedding.from_pretrained(self.static.weight.detach().clone(), freeze=False)

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(torch.cat([self.static(ids), self.tuned(ids)], -1).sum(1))

    torch.manual_seed(0)
    model, ids = Channels().double(), torch.tensor([[1, 2, 3]])
    with pytest.raises(InputError, match=r"go into 2 layers \(static, tuned\)"):
        relevance(model, ids, target=0)
    found = relevance(model, ids, target=0, embedding="static").check().relevance
    with torch.no_grad():
        model.tuned.weight[8] += 1  # a row that is not needed
    assert_close(found, relevance(model, ids, target=0, embedding="static").relevance)


def test_torch_embedding_names_its_table_first() -> None:
    class Direct(Reader):
        def forward(self, ids: Tensor) -> Tensor:
            both = torch.embedding(weight=self.words.weight, indices=ids) + torch.embedding(self.words.weight, ids)
            return self.out(self.gru(both)[0][:, -1])

    torch.manual_seed(0)
    model, ids = Direct(nn.Embedding(4, 6)).double(), torch.tensor([[1, 2, 3]])
    found = relevance(model, ids, target=0).check()
    assert_close(found.score, model(ids)[:, 0].detach())
    assert found.relevance.abs().sum() > 0
