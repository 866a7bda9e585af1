"""Training a `RecurrentClassifier` on labelled phrases. The defaults were chosen on SST's dev set."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from whence.errors import ModelError
from whence.models.classifier import RecurrentClassifier
from whence.quoting import shortened
from whence.training.checkpoint import read_checkpoint, write_checkpoint

LOOKS = 20  # the loss is read every so many steps, because reading it makes the GPU wait
Phrases = Sequence[tuple[Sequence[int], int]]  # ids and label


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run. The learning rate rises over 3 % of the steps, then falls linearly to 0."""

    epochs: int = 15
    batch: int = 256
    rate: float = 0.017
    vector_rate: float = 0.03  # the embedding's learning rate, as a fraction of `rate`
    decay: float = 0.04  # decoupled weight decay, on the matrices only
    embedding_dropout: float = 0.4
    state_dropout: float = 0.05
    weight_dropout: float = 0.2  # on the recurrent weights
    smoothing: float = 0.05
    average: float = 0.9998
    unknown: float = 0.02  # the probability with which a word that occurs once is replaced by the unknown word
    seed: int = 0


class Batch(NamedTuple):
    """Phrases of similar length: ids (B, T), lengths (B,), labels (B,), weights (B,)."""

    ids: Tensor
    lengths: Tensor
    labels: Tensor
    weights: Tensor


def unique_phrases(phrases: Phrases) -> tuple[list[tuple[tuple[int, ...], int]], Tensor]:
    """Each (phrase, label) once, with the weight count^¼ · length^¼."""
    counts = Counter((tuple(ids), label) for ids, label in phrases)
    found = list(counts)
    weights = torch.tensor([(counts[pair] * len(pair[0])) ** 0.25 for pair in found])
    return found, weights / weights.mean()


def batches(
    phrases: Phrases, weights: Tensor, *, size: int, generator: torch.Generator | None, device: torch.device
) -> Iterator[Batch]:
    """Phrases in random order, but sorted by length within every hundred batches, to keep padding small."""
    order = _shuffled(len(phrases), generator)
    chunks = [order[k : k + 100 * size] for k in range(0, len(order), 100 * size)]
    ready: list[list[int]] = []
    for chunk in chunks:
        chunk.sort(key=lambda n: len(phrases[n][0]))
        ready += [chunk[k : k + size] for k in range(0, len(chunk), size)]
    for k in _shuffled(len(ready), generator):
        rows = ready[k]
        yield Batch(
            nn.utils.rnn.pad_sequence([torch.tensor(phrases[n][0]) for n in rows], batch_first=True).to(device),
            torch.tensor([len(phrases[n][0]) for n in rows]),
            torch.tensor([phrases[n][1] for n in rows]).to(device),
            weights[rows].to(device),
        )


def _shuffled(count: int, generator: torch.Generator | None) -> list[int]:
    """The numbers from 0 on in random order; without a generator, in order."""
    return cast(list[int], torch.randperm(count, generator=generator).tolist()) if generator else list(range(count))


def initialise(module: RecurrentClassifier, vectors: Tensor | None) -> None:
    """Initialise with orthogonal recurrent weights, a forget bias of 1, and `vectors` or random embeddings."""
    encoder, hidden = module.encoder, module.architecture.hidden
    for name, weight in encoder.named_parameters():
        if name.startswith("weight_hh"):
            for gate in cast(Sequence[Tensor], weight.data.split(hidden)):
                nn.init.orthogonal_(gate)
        elif name.startswith("weight_ih"):
            nn.init.xavier_uniform_(weight)
        else:
            nn.init.zeros_(weight)
            if isinstance(encoder, nn.LSTM) and name.startswith("bias_ih"):
                weight.data[hidden : 2 * hidden] = 1.0
    nn.init.normal_(module.embedding.weight, std=0.5)
    if vectors is not None:
        module.embedding.weight.data.copy_(vectors)


def dropped_scores(module: RecurrentClassifier, batch: Batch, recipe: Recipe) -> Tensor:
    """The scores with dropout on embeddings, final states and recurrent weights."""
    embedded = F.dropout(module.embedding(batch.ids), recipe.embedding_dropout)
    packed = pack_padded_sequence(embedded, batch.lengths, batch_first=True, enforce_sorted=False)
    h = _final_states(module.encoder, packed, recipe.weight_dropout)
    return module.head(F.dropout(torch.cat([h[0], h[1]], dim=-1), recipe.state_dropout))


def _final_states(encoder: nn.LSTM | nn.GRU | nn.RNN, packed: PackedSequence, rate: float) -> Tensor:
    """The encoder's final states (2, B, H) with dropout on its recurrent weights."""
    flat = [
        F.dropout(weight, rate) if name.startswith("weight_hh") else weight
        for name, weight in ((n, getattr(encoder, n)) for row in cast(list[list[str]], encoder._all_weights) for n in row)
    ]
    zeros = packed.data.new_zeros(2, int(packed.batch_sizes[0]), encoder.hidden_size)
    calls = {nn.LSTM: torch.lstm, nn.GRU: torch.gru, nn.RNN: torch.rnn_tanh}
    call = cast(Callable[..., tuple[Tensor, ...]], calls[type(encoder)])
    state = (zeros, zeros) if isinstance(encoder, nn.LSTM) else zeros
    found = call(packed.data, packed.batch_sizes, state, flat, True, 1, 0.0, True, True)
    return found[1] if packed.unsorted_indices is None else found[1].index_select(1, packed.unsorted_indices)


class Average:
    """A running average of the weights, which predicts better than the final weights."""

    def __init__(self, module: nn.Module, rate: float) -> None:
        self.rate, self.steps = rate, 0
        self.weights = [p.detach().clone() for p in module.parameters()]

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Move the average towards the module's weights, faster at the beginning."""
        self.steps += 1
        rate = min(self.rate, (1 + self.steps) / (10 + self.steps))
        for average, parameter in zip(self.weights, module.parameters(), strict=True):
            average.lerp_(parameter.detach(), 1 - rate)

    @torch.no_grad()
    def write_into(self, module: nn.Module) -> None:
        """Replace the module's weights by their average."""
        for parameter, average in zip(module.parameters(), self.weights, strict=True):
            parameter.copy_(average)


def optimiser(module: RecurrentClassifier, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices; the embedding has a smaller learning rate and no decay."""
    others = [p for name, p in module.named_parameters() if not name.startswith("embedding")]
    return torch.optim.AdamW(
        [
            {"params": [module.embedding.weight], "lr": recipe.rate * recipe.vector_rate, "weight_decay": 0.0},
            {"params": [p for p in others if p.dim() > 1], "weight_decay": recipe.decay},
            {"params": [p for p in others if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=recipe.rate,
    )


def rate_factor(step: int, steps: int) -> float:
    """The factor of the learning rate: rises to 1 over the first 3 % of the steps, then falls linearly to 0."""
    warm = max(1, math.ceil(0.03 * steps))
    return step / warm if step < warm else max(0.0, (steps - step) / max(1, steps - warm))


@torch.no_grad()
def scores_of(module: nn.Module, sentences: Phrases, *, device: torch.device) -> tuple[Tensor, list[int]]:
    """The scores (sentences, classes) and the labels of sentences, both sorted by length."""
    module.eval()
    found = list(batches(sentences, torch.ones(len(sentences)), size=256, generator=None, device=device))
    scores = torch.cat([module(batch.ids, batch.lengths) for batch in found])
    return scores, cast(list[int], torch.cat([batch.labels for batch in found]).tolist())


class Trainer:
    """A training run that can be saved after any epoch and resumed, with the same result."""

    def __init__(self, module: RecurrentClassifier, phrases: Phrases, recipe: Recipe, *, device: torch.device) -> None:
        self.module, self.recipe, self.device = module.to(device), recipe, device
        self.phrases, self.weights = unique_phrases(phrases)
        counts = Counter(token for ids, _ in self.phrases for token in set(ids))
        self.rare = torch.tensor([counts[n] == 1 for n in range(module.architecture.vocabulary)], device=device)
        digest = hashlib.sha256(repr(self.phrases).encode())
        # only the embedding: the other initial weights depend on the number of threads
        digest.update(module.embedding.weight.detach().cpu().numpy().tobytes())
        self.start = digest.hexdigest()[:16]
        self.average = Average(module, recipe.average)
        self.optimiser = optimiser(module, recipe)
        self.base_rates = [group["lr"] for group in self.optimiser.param_groups]
        self.epoch = 0

    @property
    def settings(self) -> str:
        """Everything that a run must have in common with the run whose checkpoint it resumes."""
        shared = {**self.module.architecture.settings(), **asdict(self.recipe), "data and start": self.start}
        return ", ".join(f"{name} {value}" for name, value in shared.items())

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches in an epoch."""
        return math.ceil(len(self.phrases) / self.recipe.batch)

    def run_epoch(self, progress: Callable[[int, float], None] = lambda done, loss: None) -> float:
        """Train for one more epoch and return the mean loss. `progress` gets the steps done and their mean loss."""
        torch.manual_seed(self.recipe.seed * 1000 + self.epoch)  # so that an epoch is the same in a resumed run
        generator = torch.Generator().manual_seed(self.recipe.seed * 1000 + self.epoch)
        losses: list[Tensor] = []
        mean = math.nan
        self.module.train()
        ordered = batches(self.phrases, self.weights, size=self.recipe.batch, generator=generator, device=self.device)
        for n, batch in enumerate(ordered):
            losses.append(self._step(batch, self.epoch * self.steps_per_epoch + n))
            if n < LOOKS or n % LOOKS == 0 or n + 1 == self.steps_per_epoch:
                mean = float(torch.stack(losses).mean())
            progress(n + 1, mean)
        self.epoch += 1
        return mean

    def _step(self, batch: Batch, step: int) -> Tensor:
        recipe = self.recipe
        factor = rate_factor(step, recipe.epochs * self.steps_per_epoch)
        for group, base in zip(self.optimiser.param_groups, self.base_rates, strict=True):
            group["lr"] = base * factor
        hidden = self.rare[batch.ids] & (torch.rand(batch.ids.shape, device=self.device) < recipe.unknown)
        shown = batch._replace(ids=batch.ids.masked_fill(hidden, 0))
        scores = dropped_scores(self.module, shown, recipe)
        losses = F.cross_entropy(scores, batch.labels, reduction="none", label_smoothing=recipe.smoothing)
        loss = (losses * batch.weights).mean()
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimiser.step()
        self.average.update(self.module)
        return loss.detach()

    def write(self, path: Path) -> None:
        """Write a checkpoint, completely or not at all."""
        tensors = {f"module.{n}": t for n, t in self.module.state_dict().items()}
        tensors |= {f"average.{n}": t for n, t in enumerate(self.average.weights)}
        for n, parameter in enumerate(self.module.parameters()):
            tensors |= {f"adam.{n}.{key}": torch.as_tensor(t) for key, t in self.optimiser.state[parameter].items()}
        record = {"epoch": str(self.epoch), "averaged": str(self.average.steps), "settings": self.settings}
        write_checkpoint(path, tensors, record)

    def resume(self, path: Path) -> None:
        """Resume from the checkpoint of a run with the same settings."""
        tensors, record = read_checkpoint(path)
        settings = record.get("settings", "none")
        if settings != self.settings:
            own = self.settings.split(", ")
            other = ", ".join(each for each in settings.split(", ") if each not in own)
            raise ModelError(f"{path} was written by a run with other settings ({shortened(other)}); remove it to start over")
        self.module.load_state_dict({n.removeprefix("module."): t for n, t in tensors.items() if n.startswith("module.")})
        for n, (weight, parameter) in enumerate(zip(self.average.weights, self.module.parameters(), strict=True)):
            weight.copy_(tensors[f"average.{n}"])
            self.optimiser.state[parameter] = {
                key: tensors[f"adam.{n}.{key}"].to("cpu" if key == "step" else self.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.epoch, self.average.steps = int(record["epoch"]), int(record["averaged"])
