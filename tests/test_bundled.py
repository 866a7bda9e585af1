"""The bundled models do what their cards say."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

import whence
from whence.data.sst import read_split
from whence.models.bundled import NAMES, directory, records
from whence.training.sst import accuracies

NEGATED = [
    ("not worth the time", "not a waste of time"),
    ("not good", "not bad"),
    ("not funny at all", "not boring at all"),
    ("it is not a great film", "it is not a terrible film"),
    ("this is n't entertaining", "this is n't dull"),
    ("not very interesting", "not very predictable"),
    ("the plot does n't work", "the plot does n't disappoint"),
    ("never thrilling", "never tedious"),
    ("not a masterpiece", "not a disaster"),
    ("it will not please you", "it will not annoy you"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_model_explains(name: str) -> None:
    pipeline = whence.load(name)
    explanation = whence.explain(pipeline, "neither funny nor suspenseful nor particularly well-drawn .")
    assert explanation.predicted in ("negative", "very negative")
    assert max(explanation.relevance) > 0 > min(explanation.relevance)
    assert sum(explanation.relevance) + sum(explanation.absorbed.values()) == pytest.approx(explanation.score, abs=1e-4)


def test_a_first_explanation_does_not_wait_for_pytorchs_compiler() -> None:
    code = (
        "import sys, whence\n"
        "whence.explain(whence.load('sst-bilstm'), 'a fine film')\n"
        "print(*[name for name in sys.modules if name.startswith('torch._dynamo')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\n"


def test_all_together_are_small_and_carry_a_card() -> None:
    sizes = [path.stat().st_size for name in NAMES for path in directory(name).iterdir()]
    assert sum(sizes) < 16 * 2**20
    assert all((directory(name) / "README.md").read_text(encoding="utf-8").startswith(f"# {name}") for name in NAMES)


@pytest.mark.parametrize(
    ("name", "five", "binary"), [("sst-bilstm", 0.50, 0.875), ("sst-bigru", 0.49, 0.87), ("sst-char-gru", 0.0, 0.0)]
)
def test_the_figures_are_those_of_the_card(sst: Path, name: str, five: float, binary: float) -> None:
    found = accuracies(whence.load(name), read_split(sst, "test"))
    record = records()[name]["training"]["test"]
    assert found == pytest.approx(record, abs=1e-3)  # a sentence or two may tip over on another processor
    assert found["five"] is not None and found["five"] >= five
    assert found["binary"] is not None and found["binary"] >= binary
    card = (directory(name) / "README.md").read_text(encoding="utf-8")
    assert f"| this model, test | {100 * record['five']:.1f} % | {100 * record['binary']:.1f} % |" in card


@pytest.mark.parametrize(("negative", "positive"), NEGATED)
def test_a_negator_flips_with_what_it_negates(negative: str, positive: str) -> None:
    """As in the paper: for "very negative", not speaks for it in "not worth the time", against it in "not a waste of time"."""
    pipeline = whence.load("sst-bilstm")
    found = [whence.explain(pipeline, text, target="very negative") for text in (negative, positive)]
    one, other = (next(r for t, r in zip(e.tokens, e.relevance, strict=True) if t in ("not", "n't", "never")) for e in found)
    assert one > 0 > other


def test_a_model_is_explained_by_its_name() -> None:
    assert whence.explain("sst-bilstm", "a fine film") == whence.explain(whence.load("sst-bilstm"), "a fine film")
    with pytest.raises(whence.ModelError, match="there is no model 'sst-bilst'"):
        whence.explain("sst-bilst", "a fine film")
    with pytest.raises(whence.InputError, match="the pipeline is a Linear"):
        whence.explain(nn.Linear(2, 2), "a fine film")  # pyright: ignore
