"""Training runs: saved and resumed, refused when damaged, and alone in their folder."""

import json
import math
import os
import pty
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from whence.errors import DataError, InputError, ModelError
from whence.models.classifier import Architecture, RecurrentClassifier
from whence.training.checkpoint import read_checkpoint, write_checkpoint
from whence.training.sst import train_sst
from whence.training.trainer import Recipe, Trainer, initialise

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
    again.resume(tmp_path / "checkpoint")
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
        with pytest.raises(
            ModelError, match=r"checkpoint is (damaged|not a checkpoint: .*); remove it to start over"
        ) as caught:
            make_trainer().resume(path)
        assert len(str(caught.value)) < 400 + len(str(path))


def test_a_checkpoint_cut_short_or_without_a_digest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    written(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=r"is not a checkpoint: .*; remove it to start over"):
        make_trainer().resume(path)
    path.write_bytes(content.replace(b'"sha256"', b'"sha255"'))
    with pytest.raises(ModelError, match="is damaged; remove it to start over"):
        make_trainer().resume(path)


@pytest.mark.parametrize("name", ["module.head.weight", "average.0", "adam.1.exp_avg"])
def test_a_checkpoint_that_is_not_finite_is_refused(tmp_path: Path, name: str) -> None:
    written(tmp_path / "checkpoint")
    tensors, record = read_checkpoint(tmp_path / "checkpoint")
    tensors[name].view(-1)[0] = math.nan
    write_checkpoint(tmp_path / "checkpoint", tensors, record)
    with pytest.raises(ModelError, match=rf"{name} holds numbers that are not finite; remove it to start over"):
        make_trainer().resume(tmp_path / "checkpoint")


def test_a_run_with_other_settings_is_not_resumed(tmp_path: Path) -> None:
    written(tmp_path / "checkpoint")
    with pytest.raises(ModelError, match=r"was written by a run with other settings \(seed 0\); remove it to start over"):
        make_trainer(seed=1).resume(tmp_path / "checkpoint")


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    folder = tmp_path / "trees"
    folder.mkdir()
    for split in ("train", "dev", "test"):
        (folder / f"{split}.txt").write_text("(4 (3 good) (2 film))\n(0 (1 bad) (2 film))\n" * 20, encoding="utf-8")
    return folder


def test_a_second_run_in_a_folder_is_refused_at_once(treebank: Path, tmp_path: Path) -> None:
    refused: list[str] = []

    def second(done: int, total: int, loss: float) -> None:
        if not refused:
            with pytest.raises(
                InputError, match=r"another run is training in .*model; wait until it has finished, or choose"
            ) as caught:
                train_sst(treebank, tmp_path / "model", epochs=1)
            refused.append(str(caught.value))

    train_sst(treebank, tmp_path / "model", epochs=2, progress=second)
    assert len(refused) == 1
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors", "vocabulary.txt"}
    with pytest.raises(InputError, match="contains a finished model"):
        train_sst(treebank, tmp_path / "model", epochs=2)


def test_a_killed_run_keeps_nobody_out(treebank: Path, tmp_path: Path) -> None:
    code = (
        "import signal, torch; from pathlib import Path; from whence.training.sst import train_sst\n"
        f"torch.set_num_threads({torch.get_num_threads()})\n"
        "from whence.training.trainer import Trainer\n"
        "write = Trainer.write\n"
        "def waiting(self, path):\n    write(self, path)\n    print('written', flush=True)\n    signal.pause()\n"
        "Trainer.write = waiting\n"
        f"train_sst(Path({str(treebank)!r}), Path({str(tmp_path / 'model')!r}), epochs=2)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"written\n"
            with pytest.raises(InputError, match="another run is training in"):
                train_sst(treebank, tmp_path / "model", epochs=2)
        finally:
            process.kill()
    assert train_sst(treebank, tmp_path / "model", epochs=2).record["recipe"]["epochs"] == 2


def test_a_run_that_fails_leaves_no_folder_behind(treebank: Path, tmp_path: Path) -> None:
    (treebank / "dev.txt").write_text("(9 no tree)\n", encoding="utf-8")
    with pytest.raises(DataError, match="'9' is not a label"):
        train_sst(treebank, tmp_path / "model", epochs=1)
    assert not (tmp_path / "model").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="'9' is not a label"):
        train_sst(treebank, tmp_path / "mine", epochs=1)
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(treebank: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for name in ("file", "file/model", "x" * 300, "a\0b"):
        with pytest.raises(InputError, match="cannot be written to: "):
            train_sst(treebank, tmp_path / name, epochs=1)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_the_loss_is_that_of_the_epoch_so_far() -> None:
    trainer = make_trainer()
    seen: list[tuple[int, float]] = []
    last = trainer.run_epoch(lambda done, loss: seen.append((done, loss)))
    assert [done for done, _ in seen] == [1, 2, 3]
    assert all(math.isfinite(loss) for _, loss in seen)
    assert seen[-1][1] == last
    assert len({loss for _, loss in seen}) == 3


def test_the_loss_is_looked_at_now_and_then() -> None:
    torch.manual_seed(0)
    module = RecurrentClassifier(Architecture(6, 5, "gru", 3, 2))
    phrases = [([n % 6] * (n // 6 + 1), n % 5) for n in range(90)]
    trainer = Trainer(module, phrases, Recipe(epochs=1, batch=1), device=torch.device("cpu"))
    seen: list[float] = []
    last = trainer.run_epoch(lambda done, loss: seen.append(loss))
    assert len(seen) == trainer.steps_per_epoch == 90
    assert len(set(seen[:20])) == 20
    assert [len(set(seen[n : n + 20])) for n in (20, 40, 60)] == [1, 1, 1]
    assert seen[-1] == last != seen[-2]


def test_a_run_goes_on_with_another_number_of_threads(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    made: list[Trainer] = []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            torch.manual_seed(0)
            module = RecurrentClassifier(Architecture(6, 5, "lstm", 60, 60))
            initialise(module, None)
            made.append(Trainer(module, PHRASES, Recipe(epochs=3), device=torch.device("cpu")))
    finally:
        torch.set_num_threads(threads)
    made[0].run_epoch()
    made[0].write(tmp_path / "checkpoint")
    made[1].resume(tmp_path / "checkpoint")
    assert all(a.equal(b) for a, b in zip(state(made[1]), state(made[0]), strict=True))


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    code = f"import torch; torch.set_num_threads({torch.get_num_threads()}); from whence.cli.main import main; main()"
    words = [sys.executable, "-c", code, "train", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_command_says_that_it_goes_on(treebank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"

    def stopped(self: Trainer, progress: object) -> float:
        if self.epoch == 2:
            raise KeyboardInterrupt
        return run_epoch(self)

    run_epoch = Trainer.run_epoch
    monkeypatch.setattr(Trainer, "run_epoch", stopped)
    with pytest.raises(KeyboardInterrupt):
        train_sst(treebank, folder, epochs=3)
    done = command("--sst", treebank, "--epochs", 3, "--output", folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"resuming the run in {folder} after epoch 2 of 3\n"


def test_neutral_sentences_alone_have_no_binary_accuracy(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("(2 (2 a) (2 film))\n" * 5, encoding="utf-8")
    done = command("--sst", tmp_path, "--epochs", 1, "--output", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    assert re.match(r"dev: \d+\.\d % of five classes\ntest: ", done.stdout)
    record = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))["training"]
    assert record["test"]["binary"] is None


def test_the_bar_shows_no_loss_before_there_is_one(treebank: Path, tmp_path: Path) -> None:
    shown = on_a_terminal("train", "--sst", str(treebank), "--epochs", "1", "--output", str(tmp_path / "model"))
    assert "nan" not in shown
    assert re.search(r"training.*loss \d\.\d{3}", shown.split("dev: ")[0].splitlines()[-2])


def on_a_terminal(*arguments: str) -> str:
    """What the command writes to a terminal."""
    main, other = pty.openpty()
    code = "from whence.cli.main import main; main()"
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=other, stderr=other, env=environment) as process:
        os.close(other)
        found = b""
        while piece := _read(main):
            found += piece
    os.close(main)
    assert process.returncode == 0, found
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", found.decode()).replace("\r", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""
