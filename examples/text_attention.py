"""Text: token ids, an embedding, a two-layer bidirectional GRU and attention over its states.

The model learns what made-up customers ask for, and LRP shows which words its decisions rest on.
"""

import random
from pathlib import Path

import torch
from torch import Tensor, nn

import whence
from whence.explanation import Explanation
from whence.models.files import write_whole
from whence.render import figure

CLASSES = ["buy", "cancel", "complain"]
SAY = {
    "buy": ["i want to buy", "please order", "i would like", "can i get"],
    "cancel": ["please cancel", "i do not want", "stop the order of", "take back"],
    "complain": ["i am unhappy with", "why is there no", "i waited weeks for", "you broke"],
}
THINGS = ["two red lamps", "a table", "the blue chairs", "my shelf", "ten green cups", "the big sofa"]
ENDS = ["", "today", "as soon as you can", "and tell me when", "for my sister"]


class Attentive(nn.Module):
    """From token ids (B, T) to scores (B, C)."""

    def __init__(self, words: int, classes: int, *, embedding: int = 24, hidden: int = 24) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, embedding, padding_idx=0)
        self.gru = nn.GRU(embedding, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.attention = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """The scores (logits)."""
        states, _ = self.gru(self.embedding(ids))
        weights = self.attention(states).masked_fill((ids == 0).unsqueeze(-1), float("-inf")).softmax(dim=1)
        return self.head((weights * states).sum(dim=1))


def corpus(count: int, seed: int) -> list[tuple[list[str], int]]:
    """Made-up sentences and their classes."""
    draw = random.Random(seed)
    found: list[tuple[list[str], int]] = []
    for _ in range(count):
        label = draw.randrange(len(CLASSES))
        text = f"{draw.choice(SAY[CLASSES[label]])} {draw.choice(THINGS)} {draw.choice(ENDS)}"
        found.append((text.split(), label))
    return found


def main() -> None:
    """Train, explain, and draw examples/pictures/text_attention.png."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for small matrices a second thread gains nothing
    data = corpus(600, seed=1)
    vocabulary = {word: n for n, word in enumerate(sorted({word for words, _ in data for word in words}), start=1)}
    model = Attentive(len(vocabulary) + 1, len(CLASSES))

    def batch(items: list[tuple[list[str], int]]) -> tuple[Tensor, Tensor]:
        rows = [torch.tensor([vocabulary[word] for word in words]) for words, _ in items]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([label for _, label in items])

    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for start in range(0, 600, 50):
        ids, labels = batch(data[start : start + 50])
        loss = nn.functional.cross_entropy(model(ids), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    rows: list[figure.HeatmapRow] = []
    for number, (words, label) in enumerate(corpus(8, seed=2), start=1):
        ids, _ = batch([(words, label)])
        result = whence.relevance(model, ids, target="predicted").check()  # (1, T, embedding)
        relevance = tuple(result.relevance.sum(-1)[0].tolist())
        predicted = CLASSES[int(result.target[0])]
        print(f"{predicted:9} " + "  ".join(f"{word} {r:+.2f}" for word, r in zip(words, relevance, strict=True)))
        spans = tuple((0, 0) for _ in words)
        explanation = Explanation(
            " ".join(words), tuple(words), spans, (False,) * len(words), relevance, {}, predicted, predicted, {"name": "lrp"}
        )
        rows.append(figure.HeatmapRow(number, CLASSES[label], predicted, explanation))
    drawn = figure.heatmaps(
        [("what is asked for", rows)], title="LRP: red words speak for the predicted class, blue ones against"
    )
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    write_whole(folder / "text_attention.png", figure.files("x", drawn)["x.png"])


if __name__ == "__main__":
    main()
