"""Does relevance depend on what it claims to explain? The model is changed, and relevance is compared with what it was.

- weights: the layers are given random weights one after another, from the output on (Adebayo et al. 2018). Relevance that stays
  the same does not explain the model.
- labels: a copy of the model is trained further on the same samples with their labels permuted. It reads the same inputs, but
  has learned nothing from them; its explanations must differ.
- shift: inputs and model are shifted together, so that the model computes the same (Kindermans et al. 2017). Relevance that
  changes depends on where the zero of the inputs is, as it does for methods that take zero for "nothing there".
- noise: inputs are changed a little. Relevance should not change much.

Similarity is Spearman's correlation of the units' relevance, in the mean over samples.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence._batches import takes_lengths
from whence.engine.held import named_layers
from whence.trust.contestants import Contestant
from whence.trust.measures import similarity
from whence.trust.subject import Numbers, Subject
from whence.trust.tensors import Tensors

SAMPLES = 40
NOISE = 0.05  # of the standard deviation of the inputs
EPOCHS, RATE, LABELLED = 20, 0.01, 200  # of the training on permuted labels


@dataclass(frozen=True, eq=False)
class Sanity:
    """For every method, how similar its relevance is to that before each change (samples,)."""

    layers: tuple[str, ...]  # in the order in which they were given random weights
    weights: dict[str, list[Numbers]]  # by method, one entry for each layer
    labels: dict[str, Numbers]
    shift: dict[str, Numbers]
    noise: dict[str, Numbers]
    permuted_accuracy: float | None  # on the permuted labels; None if there was no such training


def sanity(
    subject: Subject,
    entered: Sequence[Contestant],
    *,
    rows: list[int],
    relevance: dict[str, list[Numbers]],
    seed: int,
    progress: Callable[[str, int, int], None],
) -> Sanity:
    """Compare the relevance of some samples, known for all, with that after every change of the model."""
    some = subject.some(rows)
    permuted, accuracy = permuted_labels(subject, seed=seed)
    changed = _changed(some, permuted, seed)
    layers = tuple(what.removeprefix("weights ") for what in changed if what.startswith("weights "))
    found: dict[str, dict[str, Numbers]] = {}
    able = [each for each in entered if each.name in relevance]
    for done, each in enumerate(able):
        own = [relevance[each.name][n] for n in rows]
        found[each.name] = {what: _similarities(own, other, each) for what, other in changed.items()}
        progress("sanity", done + 1, len(able))
    return Sanity(
        layers,
        {name: [own[f"weights {layer}"] for layer in layers] for name, own in found.items()},
        {name: own["labels"] for name, own in found.items() if "labels" in own},
        {name: own["shift"] for name, own in found.items() if "shift" in own},
        {name: own["noise"] for name, own in found.items() if "noise" in own},
        accuracy,
    )


def _changed(subject: Subject, permuted: nn.Module | None, seed: int) -> dict[str, Subject]:
    """The subject after every change that its model takes; a model may be impossible to copy, or to shift."""
    found: dict[str, Subject] = {}
    with suppress(Exception):  # of the user's model
        found |= {f"weights {name}": each for name, each in randomised(subject, seed=seed)}
    for what, change in (("shift", shifted), ("noise", noisy)):
        with suppress(Exception):
            if (made := change(subject, seed=seed)) is not None:
                found[what] = made
    if permuted is not None:
        found["labels"] = subject.with_module(permuted)
    return found


def _similarities(before: list[Numbers], subject: Subject, each: Contestant) -> Numbers:
    """NaN where the method cannot explain the changed model."""
    try:
        after = subject.relevance(each.method, against=each.against)
    except Exception:  # of a method, or a model, of the user's
        return np.full(len(before), np.nan)
    pairs = [(one, other) for one, other in zip(before, after, strict=True) if len(one) > 2]  # two units say too little
    return np.array([similarity(*pair) for pair in pairs])


def randomised(subject: Subject, *, seed: int) -> Iterator[tuple[str, Subject]]:
    """The subject with one layer after another given random weights, the last layer first; each keeps those before it.

    Every weight is drawn from a normal distribution with the mean and the deviation of its tensor, so that sizes stay as they
    were. The layer of the inputs themselves, an nn.Embedding, is left as it is.
    """
    module = _copied(subject.module)
    generator = torch.Generator().manual_seed(seed)
    layers = [
        (name, layer)
        for name, layer in named_layers(module)
        if any(True for _ in layer.parameters(recurse=False)) and not isinstance(layer, (nn.Embedding, nn.EmbeddingBag))
    ]
    for name, layer in reversed(layers):
        with torch.no_grad():
            for weight in layer.parameters(recurse=False):
                drawn = torch.randn(weight.shape, generator=generator).to(weight)
                weight.copy_(drawn * (float(weight.std(correction=0)) or 1.0) + weight.mean())
        yield name or "the model", subject.with_module(_copied(module))


def _copied(module: nn.Module) -> nn.Module:
    """A copy of a model; the weights of its recurrent layers lie in one piece, as cuDNN wants them."""
    found = copy.deepcopy(module)
    for _, layer in named_layers(found):
        if isinstance(layer, nn.RNNBase):
            layer.flatten_parameters()
    return found


class Minus(nn.Module):
    """Takes an amount away."""

    def __init__(self, amount: Tensor) -> None:
        super().__init__()
        self.amount = nn.Buffer(amount)

    def forward(self, x: Tensor) -> Tensor:
        """The numbers without the amount."""
        return x - self.amount


def shifted(subject: Subject, *, seed: int) -> Subject | None:
    """The subject with its inputs, or the vectors of its tokens, moved by a constant that is taken away again.

    None if the model cannot be called in this way.
    """
    generator = torch.Generator().manual_seed(seed)
    if isinstance(subject, Tensors) and subject.inputs.is_floating_point():
        if subject.sizes is not None and subject.call is None and takes_lengths(subject.model):
            return None
        x, call = subject.inputs, subject.call or _called
        amount = torch.randn(x.shape[-1], generator=generator).to(x) * x.std(correction=0)
        return replace(
            subject,
            inputs=x + amount,
            baseline=subject.baseline + amount,
            call=partial(_called_shifted, call=call, amount=amount),
        )
    module = _copied(subject.module)
    if (found := _embedding(module)) is None:
        return None
    name, layer = found
    amount = torch.randn(layer.embedding_dim, generator=generator).to(layer.weight) * layer.weight.detach().std()
    with torch.no_grad():
        layer.weight.add_(amount)
    parent, _, last = name.rpartition(".")
    setattr(module.get_submodule(parent), last, nn.Sequential(layer, Minus(amount)))
    return subject.with_module(module)


def _called(model: nn.Module, x: Tensor) -> object:
    return model(x)


def _called_shifted(model: nn.Module, x: Tensor, *, call: Callable[[Any, Any], object], amount: Tensor) -> object:
    return call(model, x - amount)


def noisy(subject: Subject, *, seed: int) -> Subject | None:
    """The subject with a little noise on its inputs, or on the vectors of its tokens; None if these are not known."""
    generator = torch.Generator().manual_seed(seed)

    def noise(x: Tensor) -> Tensor:
        return NOISE * x.detach().std(correction=0) * torch.randn(x.shape, generator=generator).to(x)

    if isinstance(subject, Tensors) and subject.inputs.is_floating_point():
        return replace(subject, inputs=subject.inputs + noise(subject.inputs))
    module = _copied(subject.module)
    if (found := _embedding(module)) is None:
        return None
    with torch.no_grad():
        found[1].weight.add_(noise(found[1].weight))
    return subject.with_module(module)


def _embedding(module: nn.Module) -> tuple[str, nn.Embedding] | None:
    """The one nn.Embedding of a model; with several, it is not known which one the tokens are looked up in."""
    found = [(name, layer) for name, layer in named_layers(module) if isinstance(layer, nn.Embedding)]
    return found[0] if len(found) == 1 else None


def permuted_labels(subject: Subject, *, seed: int) -> tuple[nn.Module | None, float | None]:
    """A copy of the model that was trained further on permuted labels, and how often it is right about them afterwards."""
    if subject.labels is None or not subject.has_classes or len(set(subject.labels.tolist())) < 2:
        return None, None
    generator = np.random.default_rng(seed)
    rows = generator.permutation(len(subject))[:LABELLED].tolist()
    some = subject.some(rows)
    assert some.labels is not None
    labels = generator.permutation(some.labels)
    try:
        model = _copied(some.module)
    except Exception:  # a model that cannot be copied
        return None, None
    if not any(weight.requires_grad for weight in model.parameters()):
        model.requires_grad_(True)
    trained = some.with_module(model)
    model.train()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        try:
            _train(trained, model, labels)
        except Exception:  # a model that cannot be trained, or not in this way
            return None, None
    model.eval()
    said = trained.scores(range(len(trained)), trained.untouched(range(len(trained))))
    return model, float((said.argmax(1) == labels).mean())


def _train(subject: Subject, model: nn.Module, labels: NDArray[np.int64]) -> None:
    """Train a model on other labels."""
    optimiser = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=RATE)
    for _ in range(EPOCHS):
        for output, places in subject.outputs():
            logits = output.clamp(1e-7, 1 - 1e-7).log() if subject.are_probabilities else output
            if output.shape[1] == 1:
                rest = (1 - output).clamp(1e-7).log() if subject.are_probabilities else torch.zeros_like(output)
                logits = torch.cat([rest, logits], 1)
            loss = nn.functional.cross_entropy(logits, torch.as_tensor(labels[places], device=logits.device))
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
