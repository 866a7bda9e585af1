"""`whence.captum` in the ways in which people call Captum on recurrent models: its tutorials, and questions in its tracker."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

import whence

attr: Any = pytest.importorskip("captum.attr", reason="Captum is not installed; the dev extra has it")

from whence.captum import LRP, LayerLRP  # noqa: E402 - needs Captum

IDS = torch.tensor([[3, 4, 5, 6, 0, 0, 0]])


class Sentiment(nn.Module):
    """Ids to one score, as in the tutorial on IMDB reviews, with an LSTM in place of the convolutions."""

    def __init__(self, classes: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(8, 5, padding_idx=0)
        self.dropout, self.rnn = nn.Dropout(0.5), nn.LSTM(5, 6, num_layers=2, bidirectional=True, dropout=0.5)
        self.fc = nn.Linear(12, classes)

    def forward(self, text: Tensor) -> Tensor:
        embedded = self.dropout(self.embedding(text)).permute(1, 0, 2)  # time first
        _, (hidden, _) = self.rnn(embedded)
        return self.fc(self.dropout(torch.cat((hidden[-2], hidden[-1]), dim=1)))


class Packed(nn.Module):
    """Padded series and their lengths."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.out = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, data: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(data, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return self.out(self.lstm(packed)[1][0][-1])


class WithStates(nn.Module):
    """States made in forward, an axis of 1, a softmax, and a squeeze at the end."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.fc1, self.fc2 = nn.LSTM(6, 5, 2, batch_first=True), nn.Linear(5, 4), nn.Linear(4, 3)
        self.relu, self.soft = nn.ReLU(), nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        h0 = torch.zeros(2, len(x), 5)
        h0.requires_grad = True
        x = x.squeeze(-1).unsqueeze(1)
        out, (_, _) = self.lstm(x, (h0, torch.zeros_like(h0)))
        return self.soft(self.fc2(self.relu(self.fc1(out)))).squeeze()


def test_an_lstm_in_the_tutorial_on_reviews() -> None:
    """`LayerIntegratedGradients(model, model.embedding)`, baselines of padding by their place, and a record to show."""
    model = Sentiment().eval()
    reference = attr.TokenReferenceBase(reference_token_idx=0).generate_reference(7, device="cpu").unsqueeze(0)
    model.zero_grad()
    lig: Any = LayerLRP(model, model.embedding)
    attributions, delta = lig.attribute(IDS, reference, n_steps=500, return_convergence_delta=True)
    assert attributions.shape == attr.LayerIntegratedGradients(model, model.embedding).attribute(IDS, reference).shape
    summed = attributions.sum(dim=2).squeeze(0)
    normed = (summed / torch.norm(summed)).cpu().detach().numpy()
    record = attr.visualization.VisualizationDataRecord(normed, 0.5, "pos", "pos", "pos", normed.sum(), list("abcdefg"), delta)
    assert attr.visualization.visualize_text([record]).data.count("<mark") == 7
    assert_close(LRP(model).attribute(IDS, reference), summed[None])


def test_a_sigmoid_or_softmax_in_a_function_around_the_model() -> None:
    """Relevance starts from the score before it, also through a function that is not a module."""
    model, several = Sentiment().eval(), Sentiment(classes=3).eval()

    def forward_with_sigmoid(text: Tensor) -> Tensor:
        return torch.sigmoid(model(text))

    def forward_with_softmax(text: Tensor) -> Tensor:
        return torch.softmax(several(text), 1)[0][1]  # a single number

    assert_close(LRP(forward_with_sigmoid).attribute(IDS), LRP(model).attribute(IDS))
    assert_close(LRP(forward_with_softmax).attribute(IDS), LRP(several).attribute(IDS, target=1))
    assert_close(LayerLRP(forward_with_sigmoid, model.embedding).attribute(IDS).sum(-1), LRP(model).attribute(IDS))


def test_a_function_of_several_inputs_one_explained() -> None:
    """Static features and a one-hot code beside the series; the answer is the last of a series of outputs."""
    torch.manual_seed(0)
    lstm, head = nn.LSTM(7, 5, batch_first=True), nn.Linear(5, 1)
    x_d, x_s, x_one_hot = torch.randn(2, 6, 3), torch.randn(2, 2), torch.eye(2)

    def forward_fun(x_d: Tensor, x_s: Tensor, x_one_hot: Tensor) -> Tensor:
        fixed = torch.cat([x_s, x_one_hot], 1)[:, None].expand(-1, x_d.shape[1], -1)
        return head(lstm(torch.cat([x_d, fixed], 2))[0])[:, -1, 0]

    rows = [
        LRP(forward_fun).attribute(inputs=(x_d[i : i + 1]), additional_forward_args=(x_s[i : i + 1], x_one_hot[i : i + 1]))
        for i in range(2)
    ]
    assert_close(torch.cat(rows), LRP(forward_fun).attribute(x_d, additional_forward_args=(x_s, x_one_hot)))
    whole = LRP(forward_fun).attribute((x_d, x_s, x_one_hot))
    assert [each.shape for each in whole] == [(2, 6, 3), (2, 2), (2, 2)]
    assert_close(whole[0], torch.cat(rows))


def test_lengths_of_packed_sequences_are_further_arguments() -> None:
    """Integrated Gradients multiplies lengths along its path, and fails; here they are refused as something to explain."""
    model, data, lengths = Packed().eval(), torch.randn(3, 5, 4), torch.tensor([3, 5, 2])
    attributions, delta = LRP(model).attribute(data, target=1, additional_forward_args=lengths, return_convergence_delta=True)
    assert_close(delta, torch.zeros(3), rtol=0, atol=1e-5)
    assert not attributions[0, 3:].any()
    assert attributions[0, :3].abs().min() > 0
    alone = LRP(model).attribute(data[:1, :3], target=1, additional_forward_args=lengths[:1])
    assert_close(attributions[:1, :3], alone)
    with pytest.raises(
        whence.InputError, match=r"inputs\[1\] are whole numbers, but the model looks them up in no nn\.Embedding"
    ):
        LRP(model).attribute((data, lengths), target=1)


def test_states_that_forward_makes_and_a_squeeze() -> None:
    model, x, targets = WithStates().eval(), torch.randn(4, 6, 1), torch.tensor([2, 0, 1, 1])
    found = LRP(model).attribute(x, target=targets, return_convergence_delta=False)
    assert found.shape == x.shape
    assert_close(found[1:2], LRP(model.forward).attribute(x[1:2], target=lambda y: y.reshape(1, 3)[:, 0]))


def test_a_step_of_an_output_by_step_with_baselines_and_steps() -> None:
    torch.manual_seed(0)
    lstm, out, data = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2), torch.randn(2, 25, 3)
    explanation = LRP(lambda x: out(lstm(x)[0]))
    attributions, delta = explanation.attribute(
        data, target=(22, 1), return_convergence_delta=True, baselines=torch.zeros_like(data), n_steps=20
    )
    assert not attributions[:, 23:].any()
    assert attributions[:, 22].abs().min() > 0
    assert_close(delta, torch.zeros(2), rtol=0, atol=1e-5)


def test_a_method_of_an_object_that_holds_the_model_and_a_partial_function() -> None:
    model = Sentiment(classes=3).train()

    class Explainer:
        def __init__(self) -> None:
            self.model = model
            self.lig = LayerLRP(self.forward_for_ig, self.model.embedding)

        def forward_for_ig(self, ids: Tensor, temperature: float = 1.0) -> Tensor:
            return self.model(ids) / temperature

    expected = LRP(model).attribute(IDS, target=1)
    assert_close(Explainer().lig.attribute(IDS, target=1).sum(-1), expected)
    assert_close(LRP(partial(Explainer().forward_for_ig, temperature=1.0)).attribute(IDS, target=1), expected)
    assert_close(LRP(partial(lambda net, ids: net(ids), model)).attribute(IDS, target=1), expected)
    assert_close(LRP(model.forward).attribute(IDS, target=1), expected)
    assert model.training
    assert model.dropout.training


def test_an_embedding_replaced_by_captum() -> None:
    """Captum's older way: the embedding is taken out, and the vectors are the inputs."""
    model = Sentiment(classes=2).eval()
    expected = LayerLRP(model, model.embedding).attribute(IDS, target=1)
    with pytest.warns(UserWarning, match="configure_interpretable|embedding layer"):
        interpretable = attr.configure_interpretable_embedding_layer(model, "embedding")
    vectors = interpretable.indices_to_embeddings(IDS)
    found = LRP(lambda x: model(x)).attribute(vectors, target=1)
    attr.remove_interpretable_embedding_layer(model, interpretable)
    assert_close(found, expected)


def test_two_sentences_of_ids() -> None:
    """Both may be explained at once, or one with the other as a further argument."""
    torch.manual_seed(0)
    table, lstm, out = nn.Embedding(9, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(10, 1)

    def forward(left: Tensor, right: Tensor, left_lengths: Tensor, right_lengths: Tensor) -> Tensor:
        read = [
            lstm(pack_padded_sequence(table(each), lengths, batch_first=True, enforce_sorted=False))[1][0][-1]
            for each, lengths in ((left, left_lengths), (right, right_lengths))
        ]
        return out(torch.cat(read, 1))

    left, right = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[7, 8, 0, 0], [5, 1, 2, 3]])
    lengths = (torch.tensor([3, 2]), torch.tensor([2, 4]))
    both = LRP(forward).attribute((left, right), additional_forward_args=lengths)
    assert [each.shape for each in both] == [(2, 3), (2, 4)]
    assert_close(both[0], LRP(forward).attribute(left, additional_forward_args=(right, *lengths)))


def test_each_feature_s_mean_over_samples_and_steps() -> None:
    """What a question on sensors does with attributions: numpy, means and sums."""
    torch.manual_seed(0)
    lstm, head, data = nn.LSTM(7, 4, batch_first=True), nn.Linear(4, 1), torch.randn(5, 10, 7)
    data.requires_grad_()
    found, _ = LRP(lambda x: head(lstm(x)[0][:, -1])).attribute(data, target=0, return_convergence_delta=True)
    assert found.detach().numpy().mean(axis=0).shape == (10, 7)
