"""`check="model"`: the model's own answer to an explanation, in two forward passes that share no rule with it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import whence
from whence.errors import InputError
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.result import CONTRADICTED, ModelAnswer, Result
from whence.trees import mapped


@dataclass(frozen=True)
class Turned(Method):
    """LRP with every sign turned: wrong on purpose."""

    name = "turned"
    label = "turned"

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Turn the signs."""
        found = whence.LRP().relevance(forward, question._replace(asks_model=False, by_step=False))
        turned = mapped(lambda leaf: -leaf if torch.is_tensor(leaf) else leaf, found.relevance)
        return replace(found, relevance=turned, explained=None)


class Last(nn.Module):
    """Scores of the last state."""

    def __init__(self, end: Callable[[Tensor], Tensor] = lambda z: z, *, batch_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.out, self.end = nn.LSTM(4, 5, batch_first=batch_first), nn.Linear(5, 3), end
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.end(self.out(self.lstm(x)[1][0][-1]))


class Shut(nn.Module):
    """Σx + 10, behind a gate that shuts as x grows: all relevance is positive, and without x the score is much larger."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(10.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """One score per sample."""
        total = x.sum((1, 2))
        return whence.gate(torch.sigmoid(-3 * total)) * (total + self.shift)


X = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
ABOVE = torch.full((2, 3, 1), 0.5, dtype=torch.float64)


def asked(model: nn.Module, x: Any = X, **settings: Any) -> Result:
    return whence.relevance(model, x, check="model", **{"target": 1, **settings})


def answer(model: nn.Module, x: Any = X, **settings: Any) -> ModelAnswer:
    found = asked(model, x, **settings)
    assert found.answer is not None and found.answer.agreement.shape == found.score.shape
    return found.answer


def by_hand(score: Callable[[Tensor], Tensor], relevance: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The scores without either side, and how far the model agrees, sample by sample."""
    steps = relevance.sum(-1)
    found: list[Tensor] = []
    for b in range(len(x)):
        up, down = (score(x[b : b + 1] * ~side[b][:, None])[0] for side in (steps > 0, steps < 0))
        f = score(x[b : b + 1])[0]
        falls, rises, p, n = f - up, down - f, steps[b].clamp(min=0).sum(), -steps[b].clamp(max=0).sum()
        found.append(torch.stack([up, down, (p * falls + n * rises) / (p * falls.abs() + n * rises.abs())]))
    up, down, agreement = torch.stack(found, 1).detach()
    return up, down, agreement


@pytest.mark.parametrize("method", ["lrp", "gi", "occlusion", "shapley", "cd", "ig", "random"])
def test_the_answer_is_that_of_the_model_without_either_side(method: str) -> None:
    model = Last()
    result = asked(model, method=method)
    assert result.answer is not None
    expected = by_hand(lambda x: model(x)[:, 1], result.relevance, X)
    for one, other in zip(result.answer, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("method", ["lrp", "occlusion", "random"])
def test_a_sample_is_asked_about_as_if_it_were_alone(method: str) -> None:
    together = answer(Last(), method=method)
    for n in range(len(X)):
        alone = answer(Last(), X[n : n + 1], method=method)
        torch.testing.assert_close(together.agreement[n : n + 1], alone.agreement)


def test_turned_signs_are_doubted_and_right_ones_are_not() -> None:
    result, turned = asked(Last()), asked(Last(), method=Turned())
    assert result.answer is not None and turned.answer is not None
    torch.testing.assert_close(result.answer.agreement, -turned.answer.agreement)
    assert bool((result.answer.agreement > -CONTRADICTED).all()) and result.doubt is None
    assert turned.doubt is not None
    first = "3 of 3 explanations are in doubt; the first is sample 0: the model contradicts the signs: its score"
    assert turned.doubt.startswith(first)
    assert f"in doubt: {turned.doubt}" in repr(turned)
    assert "in doubt" not in repr(result)


@pytest.mark.parametrize("end", [torch.sigmoid, lambda z: z.softmax(-1), lambda z: z.log_softmax(-1)])
@pytest.mark.parametrize("method", ["lrp", "cd"])
def test_the_score_is_asked_for_where_the_explanation_starts(end: Callable[[Tensor], Tensor], method: str) -> None:
    """A model that ends in a softmax is asked for its logits."""
    for one, other in zip(answer(Last(end), method=method), answer(Last(), method=method), strict=True):
        torch.testing.assert_close(one, other)


def test_every_form_of_input_is_asked_about() -> None:
    model, lengths = Last(), torch.tensor([6, 4, 2])
    plain, every = answer(model).agreement, answer(model, target="all").agreement
    packed = answer(model, pack_padded_sequence(X, lengths, batch_first=True))
    torch.testing.assert_close(packed.agreement, answer(model, X, lengths=lengths).agreement)
    time_first = answer(Last(batch_first=False), X.transpose(0, 1))
    for other in (answer(model, X, by_step=True), answer(model, {"x": X}), time_first):
        torch.testing.assert_close(other.agreement, plain)
    torch.testing.assert_close(every[1], plain)
    torch.testing.assert_close(answer(model, X[0]).agreement, plain[0])


def test_token_ids_are_taken_away_as_vectors_of_zeros() -> None:
    torch.manual_seed(0)
    table = nn.Embedding(9, 4).double()
    ids, last = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), Last()
    embedded = answer(last, table(ids).detach())
    torch.testing.assert_close(answer(nn.Sequential(table, last), ids).agreement, embedded.agreement)


def test_steps_are_set_to_the_baseline_of_the_method() -> None:
    model = Last()
    result = asked(model, method=whence.Occlusion(baseline=0.7))
    assert result.answer is not None
    without = torch.where((result.relevance.sum(-1) > 0)[..., None], torch.tensor(0.7, dtype=torch.float64), X)
    torch.testing.assert_close(result.answer.without_for, model(without)[:, 1].detach())


def test_lrp_takes_two_more_runs_of_the_model() -> None:
    model, runs = Last(), list[int]()
    model.register_forward_hook(lambda *_: runs.append(1))
    method = whence.LRP(epsilon=1e-6)  # small beside the amounts, so that it is not counted what it shared out
    whence.relevance(model, X, target=1, method=method)
    before = len(runs)
    asked(model, method=method)
    assert len(runs) == 2 * before + 2


class Remembering(nn.Module):
    """A model that counts its calls, and scales its scores by what it counted and by a random number."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.calls = Last(), 0
        self.seen = nn.Buffer(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        self.calls += 1
        self.seen += 1
        return self.last(x) * (1 + self.calls) * (1 + float(torch.rand(())))


@pytest.mark.parametrize("method", ["lrp", "occlusion"])
def test_every_run_starts_from_the_same_state_and_random_numbers(method: str) -> None:
    model = Remembering()
    result = asked(model, method=method)
    assert result.answer is not None and (model.calls, float(model.seen)) == (0, 0.0)
    plain = asked(Last(), method=method)
    assert plain.answer is not None
    torch.testing.assert_close(result.answer.agreement, plain.answer.agreement)
    factor = result.score / plain.score
    torch.testing.assert_close(result.answer.without_for, plain.answer.without_for * factor)


def test_a_contradiction_is_told_and_refused_by_a_strict_method() -> None:
    result = asked(Shut(), ABOVE, target=None)
    assert result.answer is not None and bool((result.answer.agreement == -1).all())
    with pytest.raises(InputError, match=r"2 of 2 .* contradicts the signs.*; leave strict=True out"):
        asked(Shut(), ABOVE, target=None, method=whence.LRP(strict=True))
    assert whence.relevance(Shut(), ABOVE, method=whence.LRP(strict=True)).doubt is None  # it was not asked


def test_a_model_that_cannot_run_without_steps_is_told() -> None:
    class Dividing(Last):
        def forward(self, x: Tensor) -> Tensor:
            if bool((x == 0).all(-1).any()):
                raise ValueError("a step of zeros")
            return super().forward(x)

    assert asked(Dividing(), X[:1]).doubt == (
        "the model gives no score without what is said to speak for or against it, so the signs could not be checked"
    )


def test_relevance_without_signs_is_not_asked_about() -> None:
    assert asked(Last(), method="sa").answer is None


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InputError, match="check is 'models'; it is True, False, or \"model\""):
        whence.relevance(Last(), X, target=1, check="models")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match='check="model" takes steps of the inputs away, and at= explains what a layer gave'):
        asked(Last(), at="lstm")


def test_words_are_taken_away_whole() -> None:
    """Of a model of characters, the two sides are words, not single characters."""
    pipeline = whence.load("sst-char-gru")
    text = "a dull and lovely film"
    explanation = whence.explain(pipeline, text, method=Turned(), check="model")
    words = explanation.by_word()
    gone = [n for n, (start, _) in enumerate(explanation.spans) if _word_at(words, start) > 0]
    assert explanation.doubt is not None and words.doubt == explanation.doubt
    score = whence.explain(pipeline, text, deleted=gone, target=explanation.target).score
    assert f"becomes {score:.4g} without what is said to speak for it" in explanation.doubt


def _word_at(words: whence.Explanation, place: int) -> float:
    return [amount for amount, (start, _) in zip(words.relevance, words.spans, strict=True) if start <= place][-1]


def test_every_way_to_show_an_explanation_shows_its_doubt() -> None:
    explanation = whence.explain("sst-bilstm", "a dull film", method=Turned(), check="model")
    assert explanation.doubt is not None and explanation.to_dict()["doubt"] == explanation.doubt
    from whence.render.html import fragment
    from whence.render.latex import latex
    from whence.render.svg import svg
    from whence.render.terminal import terminal

    pages = (fragment(explanation), latex([explanation]), svg(explanation))
    for shown in (terminal(explanation, width=400, colour=False), *pages):
        assert "in doubt: the model contradicts the signs" in shown.replace("\\ ", " ")
    assert whence.explain("sst-bilstm", "a dull film", check="model").doubt is None


@pytest.mark.parametrize("target", ["predicted", "all"])
def test_texts_of_a_batch_keep_their_own_doubt(target: str) -> None:
    texts = ["a dull film", "one of the best films of the year"]
    found = whence.explain("sst-bilstm", texts, target=target, method=Turned(), check="model")
    alone = [whence.explain("sst-bilstm", [text], target=target, method=Turned(), check="model") for text in texts]
    assert [each.doubt is None for each in found] == [each.doubt is None for own in alone for each in own]
    assert any(each.doubt for each in found)


def test_a_corpus_asks_about_its_first_rows_and_says_so_in_its_manifest(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = tmp_path / "rows.txt"
    rows.write_text("a dull film\none of the best films of the year\n")
    settings: dict[str, Any] = {"workers": 1, "target": "positive"}
    found = {
        method.name: whence.corpus.explain("sst-bilstm", rows, tmp_path / method.name, method=method, **settings)
        for method in (whence.LRP(), Turned())
    }
    assert found["lrp"]["model_check"] == {"rows": 2, "in_doubt": 0}
    turned = found["turned"]["model_check"]
    assert (turned["rows"], turned["in_doubt"], turned["first"]["row"]) == (2, 2, 0)
    assert turned["first"]["doubt"].startswith("the model contradicts the signs")
    again = whence.corpus.explain("sst-bilstm", rows, tmp_path / "lrp", method="lrp", **settings)
    assert again == found["lrp"]


def test_a_corpus_of_series_asks_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"x": each}) + "\n" for each in X.tolist()))
    found = whence.corpus.explain(Last(), rows, tmp_path / "out", text="x", method=Turned(), workers=1)
    assert (found["model_check"]["rows"], found["model_check"]["in_doubt"]) == (3, 3)


def test_a_series_is_asked_about() -> None:
    values = X[0].numpy()
    assert whence.explain_series(Last(), values, output=1, check="model").doubt is None
    turned = whence.explain_series(Last(), values, output=1, method=Turned(), check="model")
    assert turned.doubt is not None and turned.to_dict()["doubt"] == turned.doubt and turned.doubt in repr(turned)


def test_figures_show_the_doubt() -> None:
    pytest.importorskip("matplotlib")
    result = asked(Last(), method=Turned())
    title = result.plot().axes[0].get_title(loc="left")
    assert "in doubt: the model contradicts the signs" in title
    words = whence.explain("sst-bilstm", "a dull film", method=Turned(), check="model")
    assert any("in doubt" in text.get_text() for text in words.plot().axes[0].texts)


def test_an_inspection_asks_about_what_the_model_predicts() -> None:
    inspection = whence.inspect(Shut(), ABOVE)
    assert inspection.doubt is not None and "contradicts the signs" in inspection.doubt
    assert inspection.to_dict()["doubt"] == inspection.doubt and inspection.doubt in str(inspection).replace("\n", " ")
    assert whence.inspect(Last(), X).doubt is None
