"""A planted token that decides the label: models learn this shortcut, and the token should be ranked first."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whence.errors import ModelError
from whence.trust.ground_truth.task import Case, Exam, Task, case
from whence.trust.ground_truth.traits import RANDOM

PLANTED, POSITIVE, NEGATIVE, FILLERS = range(1), range(1, 6), range(6, 11), range(11, 31)  # token ids
LENGTH, CUES = 12, 3  # tokens of a text, and how many of them speak for its label
PART = 0.5  # of the training texts hold the planted token, and are positive whatever else they hold
MODELS, TEXTS = 3, 20  # so many texts are explained for each model
TRAINING_STEPS = 800
SURE = 0.98  # of the texts must have the right label, and must change it when the token is inserted


class Texts(NamedTuple):
    """Token ids, labels (1 positive, 0 negative), and a place without a cue where the token is or can be inserted."""

    ids: Tensor  # (B, T)
    labels: Tensor  # (B,)
    place: Tensor  # (B,)

    def planted(self) -> "Texts":
        """The same with the token inserted, which makes them positive."""
        return Texts(self.ids.scatter(1, self.place[:, None], PLANTED[0]), torch.ones_like(self.labels), self.place)

    def rows(self, chosen: Tensor) -> "Texts":
        """Some of the texts."""
        return Texts(*(each[chosen] for each in self))


def texts(count: int, generator: torch.Generator) -> Texts:
    """Texts without the planted token: fillers, and cues that speak for their label."""
    labels = torch.randint(0, 2, (count,), generator=generator)
    ids = torch.randint(FILLERS.start, FILLERS.stop, (count, LENGTH), generator=generator)
    places = torch.rand(count, LENGTH, generator=generator).topk(CUES + 1).indices
    cues = torch.randint(0, len(POSITIVE), (count, CUES), generator=generator)
    starts = torch.where(labels == 1, POSITIVE.start, NEGATIVE.start)
    return Texts(ids.scatter(1, places[:, :CUES], cues + starts[:, None]), labels, places[:, CUES])


class Reader(nn.Module):
    """An embedding, an LSTM, and one score: positive texts have a score above 0."""

    def __init__(self, generator: torch.Generator, *, embedding: int = 8, hidden: int = 12) -> None:
        super().__init__()
        self.embedding = nn.Embedding(FILLERS.stop, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)
        with torch.no_grad():
            for each in self.parameters():
                bound = 1.0 if each is self.embedding.weight else hidden**-0.5
                each.copy_(bound * (2 * torch.rand(each.shape, generator=generator) - 1))

    def forward(self, ids: Tensor) -> Tensor:
        """One score for each text (B, T)."""
        return self.head(self.lstm(self.embedding(ids))[0][:, -1])[:, 0]


def trained(generator: torch.Generator) -> Reader:
    """A model that has read texts of which half hold the planted token."""
    model = Reader(generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(TRAINING_STEPS):
        plain = texts(64, generator)
        is_planted = torch.rand(64, generator=generator) < PART
        ids = torch.where(is_planted[:, None], plain.planted().ids, plain.ids)
        loss = F.binary_cross_entropy_with_logits(model(ids), torch.where(is_planted, 1, plain.labels).float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.double().eval()


class Learned(NamedTuple):
    """What shows that a model has learned the shortcut, as parts of new texts."""

    accuracy_planted: float
    accuracy_plain: float
    flips: float  # negative texts that become positive when the token is inserted


@torch.no_grad()
def learned(model: Reader, generator: torch.Generator) -> Learned:
    """Measure a model on 1000 new texts."""
    plain = texts(1000, generator)
    before, after = model(plain.ids) > 0, model(plain.planted().ids) > 0
    is_negative = plain.labels == 0
    parts = (after, before == plain.labels, (~before & after)[is_negative])
    return Learned(*(float(part.double().mean()) for part in parts))


def _asked(model: Reader, generator: torch.Generator) -> tuple[Texts, Tensor]:
    """Negative texts that the inserted token alone makes positive, and how much it raises their score."""
    plain = texts(8 * TEXTS, generator)
    with torch.no_grad():
        before, after = model(plain.ids), model(plain.planted().ids)
    chosen = ((plain.labels == 0) & (before < 0) & (after > 0)).nonzero()[:TEXTS, 0]
    return plain.planted().rows(chosen), (after - before)[chosen]


@cache
def _exam() -> Exam:
    cases: list[Case] = []
    places: list[Tensor] = []
    rises: list[Tensor] = []
    for seed in range(MODELS):
        generator = torch.Generator().manual_seed(seed)
        model = trained(generator)
        found = learned(model, generator)
        if min(found) < SURE:
            raise ModelError(
                f"the model of the task 'shortcut' with seed {seed} has not learned it: {found}; {SURE} was needed"
            )
        asked, rise = _asked(model, generator)
        cases.append(case(model, asked.ids, F.one_hot(asked.place, LENGTH)))
        places.append(asked.place)
        rises.append(rise)

    def measured(answer: Sequence[Tensor]) -> dict[str, float]:
        return _measured(torch.cat(list(answer)), torch.cat(places), torch.cat(rises))

    return Exam(tuple(cases), measured)


def _measured(r: Tensor, place: Tensor, rise: Tensor) -> dict[str, float]:
    """The rank of the planted token by relevance, 1 the first; ties share their ranks.

    part: its relevance as a part of what the token raises the score by.
    """
    own = r.gather(1, place[:, None])
    ahead, level = (r > own).sum(1), (r == own).sum(1).double()
    return {
        "precision": float(((ahead == 0) / level).mean()),
        "rank": float((1 + ahead + (level - 1) / 2).mean()),
        "part": float((own[:, 0] / rise).mean()),
    }


SHORTCUT = Task(
    name="shortcut",
    title="A planted token decides the label of a text: it should be ranked first",
    prepare=_exam,
    deciding=("precision",),
    causes={
        "gradient alone": "the gradient tells how the score would react to another vector at a place, not what the token gave",
        "times input": "the score is saturated: it is almost the same for 0.8 of the token's vector, and so the gradient gives "
        "the token {part:.0%} of what it raises the score by",
        **RANDOM,
    },
)
