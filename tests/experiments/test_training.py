"""Training runs: written down, taken up again, refused when damaged, and alone in their folder."""

import math
import random
from pathlib import Path

import pytest
import torch

from whence.errors import ModelError
from whence.models.checkpoint import read_checkpoint, write_checkpoint
from whence.models.classifier import Architecture, RecurrentClassifier
from whence.models.training import Recipe, Trainer

PHRASES = [([1, 2], 4), ([3, 2], 0), ([4, 2], 2), ([5, 3], 3), ([5, 1], 1)]


def make_trainer(seed: int = 0) -> Trainer:
    torch.manual_seed(0)
    module = RecurrentClassifier(Architecture(6, 5, "gru", 3, 2))
    return Trainer(module, PHRASES, Recipe(epochs=3, batch=2, seed=seed), device=torch.device("cpu"))


def state(trainer: Trainer) -> list[torch.Tensor]:
    adam = [t for p in trainer.module.parameters() for t in trainer.optimiser.state[p].values()]
    return [*trainer.module.state_dict().values(), *trainer.average.weights, *adam]


def written(path: Path) -> Trainer:
    trainer = make_trainer()
    trainer.run_epoch()
    trainer.write(path)
    return trainer


def test_a_checkpoint_comes_back_whole(tmp_path: Path) -> None:
    trainer = written(tmp_path / "checkpoint")
    again = make_trainer()
    again.take_up(tmp_path / "checkpoint")
    assert (again.epoch, again.average.steps) == (trainer.epoch, trainer.average.steps) == (1, 3)
    assert all(a.equal(b) for a, b in zip(state(again), state(trainer), strict=True))


def test_a_flipped_bit_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written(path)
    content, start = path.read_bytes(), int.from_bytes(path.read_bytes()[:8], "little") + 8
    draw = random.Random(0)
    in_tensors = [draw.randrange(start, len(content)) for _ in range(100)]
    in_header = [n for n in range(8, start) if content[n] != ord(" ")][::7]
    for place in (*in_tensors, *in_header):
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match=r"checkpoint is (damaged|no checkpoint: .*); remove it to start anew") as caught:
            make_trainer().take_up(path)
        assert len(str(caught.value)) < 400 + len(str(path))


def test_a_checkpoint_cut_short_or_without_a_digest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"is no checkpoint: .*; remove it to start anew"):
        make_trainer().take_up(path)
    path.write_bytes(content.replace(b'"sha256"', b'"sha255"'))
    with pytest.raises(ModelError, match="is damaged; remove it to start anew"):
        make_trainer().take_up(path)


@pytest.mark.parametrize("name", ["module.head.weight", "average.0", "adam.1.exp_avg"])
def test_numbers_that_are_not_finite_are_not_taken_up(tmp_path: Path, name: str) -> None:
    written(tmp_path / "checkpoint")
    tensors, record = read_checkpoint(tmp_path / "checkpoint")
    tensors[name].view(-1)[0] = math.nan
    write_checkpoint(tmp_path / "checkpoint", tensors, record)
    with pytest.raises(ModelError, match=rf"{name} holds numbers that are not finite; remove it to start anew"):
        make_trainer().take_up(tmp_path / "checkpoint")


def test_a_run_with_other_settings_is_not_taken_up(tmp_path: Path) -> None:
    written(tmp_path / "checkpoint")
    with pytest.raises(ModelError, match=r"is of a run with other settings \(seed 0\); remove it to start anew"):
        make_trainer(seed=1).take_up(tmp_path / "checkpoint")
