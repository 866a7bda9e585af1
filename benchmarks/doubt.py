"""How often the model's own answer doubts an explanation that is right, and misses one that is wrong.

    python benchmarks/doubt.py [--draws 8]

What is right is told by occlusion of the model's own output, step by step: cosine with relevance of at least .5. Wrong are the
same explanations with every sign changed, and those of the heads below that have a cosine of −.2 or less. False alarms are
doubts about the right ones, missed alarms no doubt about the wrong ones. Models are all of tests/models, with random weights,
and a head on an LSTM or GRU for every way to squash a score that `HEADS` lists. They are in two halves by a hash of their
names: the threshold was chosen on the first.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import whence  # noqa: E402
from tests.models.cells import ZOO  # noqa: E402
from tests.models.heads import HEADS as PLAIN  # noqa: E402
from tests.models.heads import NORMALISED, last  # noqa: E402
from tests.models.networks import NETWORKS  # noqa: E402
from tests.models.published import PUBLISHED  # noqa: E402
from whence.equations import Rules  # noqa: E402
from whence.methods.following import following  # noqa: E402
from whence.methods.forward import Forward  # noqa: E402
from whence.methods.inputs import read  # noqa: E402
from whence.methods.predicting import predicting  # noqa: E402
from whence.methods.witness import Witness, answer_of, followed  # noqa: E402
from whence.result import CONTRADICTED, Result  # noqa: E402

SAMPLES, STEPS, FEATURES, CLASSES = 3, 6, 4, 3
RIGHT, WRONG = 0.5, -0.2  # cosines with occlusion
THRESHOLDS = (-0.5, -0.2, -0.1, 0.0, 0.1, 0.2, 0.5)
HEADS = {"logits": last(lambda z: z), **PLAIN, **NORMALISED}
BIASES = (-5.0, -1.0, 2.0)  # of the dense layer under a head


Layer = type[nn.LSTM] | type[nn.GRU]


class Headed(nn.Module):
    """A recurrent layer, a dense layer at every step, and a head."""

    def __init__(self, layer: Layer, head: Callable[[Tensor], Tensor], bias: float) -> None:
        super().__init__()
        self.layer, self.head = layer(FEATURES, 8, batch_first=True), head
        self.out = nn.Linear(8, CLASSES)
        with torch.no_grad():
            self.out.bias.add_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.head(self.out(self.layer(x)[0]))


class Case(NamedTuple):
    """One sample's explanation: its cosine with occlusion, and the model's agreement with it and with its opposite."""

    model: str
    is_head: bool
    cosine: float
    agreement: float
    opposite: float

    @property
    def is_first_half(self) -> bool:
        """Whether the model is one of those that the threshold was chosen on."""
        return hashlib.sha256(self.model.encode()).digest()[0] % 2 == 0


def models(draws: int) -> Iterator[tuple[str, bool, nn.Module]]:
    """Models by name, and whether they are one of the heads."""
    for name, make in {**ZOO, **NETWORKS, **PUBLISHED}.items():
        for seed in range(draws):
            torch.manual_seed(seed)
            yield name, False, make(FEATURES, 4, CLASSES).double().eval()
    for name, head in HEADS.items():
        for layer in (nn.LSTM, nn.GRU):
            for bias in BIASES:
                for seed in range(max(1, draws // 4)):
                    torch.manual_seed(seed)
                    yield f"{name} on {layer.__name__}", True, Headed(layer, head, bias).double().eval()


def cases(name: str, is_head: bool, model: nn.Module, method: whence.LRP) -> list[Case]:
    """The cases of one model's samples."""
    x = torch.randn(SAMPLES, STEPS, FEATURES, dtype=torch.float64)
    try:
        result = whence.relevance(model, x, target=1, method=method, check=False)
    except whence.WhenceError:  # a model that is refused has no explanation to be doubted
        return []
    forward = Forward(model, read(x))
    with predicting(forward.parts) as state, following(forward, 1, Rules(), state) as found:
        witness = followed(found, found.picked(lambda run, start: None), is_safe=False)
        given, turned = (answer_of(witness, each).agreement for each in (result, _opposite(result)))
        drops = _occluded(witness)
    relevance = result.relevance.sum(-1)
    cosines = torch.cosine_similarity(relevance, drops, dim=1, eps=1e-30)
    numbers = cast(list[list[float]], torch.stack([cosines, given, turned], 1).tolist())
    return [Case(name, is_head, *each) for each in numbers]


def _opposite(result: Result) -> Result:
    return replace(result, relevance=-result.relevance)


def _occluded(witness: Witness) -> Tensor:
    """How far the explained score falls without each step (B, T)."""
    shape = witness.layouts[0].place.shape
    each = torch.eye(shape[1], dtype=torch.bool)
    return torch.stack([witness.scores[0] - witness.scores_without([step.expand(shape)])[0] for step in each], 1).detach()


def rates(found: list[Case], threshold: float) -> str:
    """A row of the table."""
    right = [each for each in found if each.cosine >= RIGHT]
    natural = [each for each in found if each.is_head and each.cosine <= WRONG]
    false = sum(each.agreement < threshold for each in right)
    turned = sum(each.opposite >= threshold for each in right)
    missed = sum(each.agreement >= threshold for each in natural)

    def part(count: int, of: int) -> str:
        return f"{100 * count / of:.2f} % of {of:,}" if of else "–"

    return f"{part(false, len(right))} | {part(turned, len(right))} | {part(missed, len(natural))}"


def main() -> None:
    """Print the rates for several thresholds and both halves of the models."""
    parser = argparse.ArgumentParser(description="How often check='model' is wrong.")
    parser.add_argument("--draws", type=int, default=8, help="random weights and inputs for each model")
    parser.add_argument("--show", action="store_true", help="also list the false alarms and the missed ones by model")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = [case for each in models(asked.draws) for case in cases(*each, whence.LRP())]
    print(f"{len({each.model for each in found})} models, {len(found):,} samples; the threshold of whence is {CONTRADICTED}\n")
    print("| models | threshold | false alarms | missed, signs changed | missed, heads |")
    print("|---|---|---|---|---|")
    halves = {"first half": [e for e in found if e.is_first_half], "second half": [e for e in found if not e.is_first_half]}
    for label, own in {**halves, "all": found}.items():
        for threshold in THRESHOLDS if label != "all" else (CONTRADICTED,):
            print(f"| {label} | {threshold} | {rates(own, threshold)} |")
    if asked.show:
        for each in found:
            is_false = each.cosine >= RIGHT and each.agreement < CONTRADICTED
            is_missed = (each.cosine >= RIGHT and each.opposite >= CONTRADICTED) or (
                each.is_head and each.cosine <= WRONG and each.agreement >= CONTRADICTED
            )
            if is_false or is_missed:
                print(f"{'false' if is_false else 'missed'}: {each}")


if __name__ == "__main__":
    main()
