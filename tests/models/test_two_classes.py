"""Binary classifiers with one output, as pipelines of two classes."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from whence.methods.method import Method
from whence.text.tokenizer import TreebankTokenizer

TEXTS = ["a fine film", "a dull dull film indeed", "fine"]
WORDS = ["a", "fine", "film", "dull", "indeed"]


class Binary(nn.Module):
    """An LSTM with one output: a score or a probability, (B, 1) or (B,)."""

    def __init__(self, *, is_probability: bool, is_flat: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(len(WORDS) + 1, 4)
        self.lstm, self.head = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 1)
        self.is_probability, self.is_flat = is_probability, is_flat

    def forward(self, ids: Tensor) -> Tensor:
        scores = 3 * self.head(self.lstm(self.embedding(ids))[0][:, -1])
        found = torch.sigmoid(scores) if self.is_probability else scores
        return found.squeeze(-1) if self.is_flat else found


def pipeline_of(*, is_probability: bool, is_flat: bool) -> whence.Pipeline:
    module = Binary(is_probability=is_probability, is_flat=is_flat).double().eval()
    return whence.Pipeline(module, TreebankTokenizer(), whence.Vocabulary(WORDS), ["bad", "good"])


@pytest.mark.parametrize("is_probability", [False, True])
@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("method", [whence.LRP(), whence.GradientXInput(), whence.Occlusion(), whence.Shapley(samples=4)])
def test_the_two_scores_are_half_the_output_with_both_signs(is_probability: bool, is_flat: bool, method: Method) -> None:
    pipeline = pipeline_of(is_probability=is_probability, is_flat=is_flat)
    plain = Binary(is_probability=False, is_flat=False).double().eval()
    for text in TEXTS:
        ids = torch.tensor([pipeline.vocabulary.ids(text.split())])
        score = float(plain(ids).detach())
        bad, good = (whence.explain(pipeline, text, target=name, method=method) for name in ("bad", "good"))
        assert_close(torch.tensor(list(good.scores.values())), torch.tensor([-score / 2, score / 2]))
        assert good.predicted == ("good" if score > 0 else "bad")
        # the relevance of a class is that of the output, halved, with its sign
        whole = whence.relevance(plain, ids, target=0, method=method, by_step=True)
        for found, sign in ((bad, -0.5), (good, 0.5)):
            assert_close(torch.tensor(found.relevance, dtype=torch.double), sign * whole.relevance[0])
        against = whence.explain(pipeline, text, target=whence.contrast("good", "bad"), method=method)
        assert_close(torch.tensor(against.difference), torch.tensor(score))


def test_the_probability_of_a_class_is_the_models() -> None:
    pipeline = pipeline_of(is_probability=True, is_flat=False)
    explanation = whence.explain(pipeline, TEXTS[0])
    said = float(pipeline.module(torch.tensor([pipeline.vocabulary.ids(TEXTS[0].split())])).detach())
    shown = torch.tensor(list(explanation.scores.values())).softmax(0)[1]
    assert_close(float(shown), said)


def test_a_binary_model_is_evaluated() -> None:
    pipeline = pipeline_of(is_probability=True, is_flat=False)
    evaluation = whence.evaluate(
        pipeline, TEXTS * 4, ["good", "bad", "good"] * 4, methods=["lrp", "gi", "sa"], suite="faithfulness"
    )
    assert {row["method"] for row in evaluation.table()} == {"lrp", "gi", "sa", "random"}


def test_one_class_stays_one_score() -> None:
    pipeline = pipeline_of(is_probability=False, is_flat=False)
    one = whence.Pipeline(pipeline.module, pipeline.tokenizer, pipeline.vocabulary, ["good"])
    explanation = whence.explain(one, TEXTS[0])
    assert list(explanation.scores) == ["good"]


def test_three_classes_for_one_output_are_refused() -> None:
    pipeline = pipeline_of(is_probability=False, is_flat=False)
    three = whence.Pipeline(pipeline.module, pipeline.tokenizer, pipeline.vocabulary, ["bad", "middling", "good"])
    with pytest.raises(whence.ModelError, match="one score for each of 3 classes"):
        whence.explain(three, TEXTS[0])
