"""Small models and samples for the tests of evaluation."""

import torch
from torch import Tensor, nn

import whence
from whence.text.tokenizer import TreebankTokenizer
from whence.text.vocabulary import Vocabulary

GOOD = ("wonderful", "charming", "funny", "moving", "brilliant", "delightful")
BAD = ("boring", "dull", "awful", "tedious", "stupid", "bland")


class Bag(nn.Module):
    """Scores are sums over words."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding, self.head = nn.Embedding(12, 7), nn.Linear(7, classes)
        self.double()

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids).sum(1))


def bag(classes: int = 3) -> whence.Pipeline:
    """A pipeline of the words a to k."""
    return whence.Pipeline(Bag(classes), TreebankTokenizer(), Vocabulary("abcdefghijk"), tuple("xyzuvw"[:classes]))


class Forecaster(nn.Module):
    """An LSTM over series."""

    def __init__(self, features: int = 3, outputs: int = 2, *, batch_first: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm = nn.LSTM(features, 8, batch_first=batch_first)
        self.head = nn.Linear(8, outputs)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        _, (h, _) = self.lstm(x)
        return self.head(h[-1])


def reviews() -> list[str]:
    """Sentences with a few words that decide, at different places."""
    found: list[str] = []
    for n in range(48):
        one, other = (GOOD, BAD) if n % 2 else (BAD, GOOD)
        first, second, third = one[n % 6], one[(n // 6) % 6], other[(n // 2) % 6]
        found.append(
            [
                f"it is a {first} film and the story is {second} from start to end .",
                f"the {first} acting and a {second} script make up for the {third} ending of it .",
                f"what a {first} movie , though some of the scenes near the end are {third} .",
            ][n % 3]
        )
    return found
