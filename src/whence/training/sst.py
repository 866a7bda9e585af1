"""Trains a sentiment model on SST, from its files to a saved pipeline with a record of the training."""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import torch

from whence.data.sst import CLASSES, Tree, digest, read_split
from whence.data.vectors import fitted, read_vectors
from whence.errors import InputError
from whence.evaluation.accuracy import accuracy
from whence.models.classifier import Architecture, Cell, RecurrentClassifier
from whence.models.pipeline import Pipeline
from whence.text.tokenizer import TOKENIZERS, CharacterTokenizer, Tokenizer
from whence.text.vocabulary import Vocabulary
from whence.training.lock import sole_use
from whence.training.trainer import Recipe, Trainer, initialise, scores_of

Level = Literal["word", "char"]
Progress = Callable[[int, int, float], None]  # steps done, their total number, and the mean loss of the epoch so far
Resumed = Callable[[int, int], None]  # the epoch after which a stopped run resumes, and the number of epochs
RECIPES: dict[str, Recipe] = {
    "word": Recipe(epochs=20),
    "char": Recipe(epochs=16, rate=0.004, vector_rate=1.0, decay=0.02, embedding_dropout=0.1, state_dropout=0.4, unknown=0.0),
}
SIZES = {"word": {"embedding": 60, "hidden": 60}, "char": {"embedding": 64, "hidden": 384}}
RARE_CHARACTERS = 20  # a character that occurs less often counts as unknown


def train_sst(
    directory: Path,
    output: Path,
    *,
    cell: Cell = "lstm",
    level: Level = "word",
    vectors: Path | None = None,
    seed: int = 0,
    epochs: int | None = None,
    device: str = "cpu",
    progress: Progress = lambda done, total, loss: None,
    resumed: Resumed = lambda epoch, epochs: None,
) -> Pipeline:
    """Train a pipeline, save it in `output` and return it; a run that was stopped resumes from its last epoch."""
    if vectors is not None and level == "char":
        raise InputError("--vectors are for words; a character model learns its own")
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"device is {device!r}; it must be cpu, or cuda if PyTorch sees a GPU")
    if not 0 <= seed < 2**31:
        raise InputError(f"seed is {seed}; it must be a whole number from 0 to 2147483647")
    recipe = replace(RECIPES[level], seed=seed, **({} if epochs is None else {"epochs": epochs}))
    with sole_use(output):
        if (output / "config.json").exists():
            raise InputError(f"{output} contains a finished model; choose another folder, or remove it first")
        return _trained(directory, output, cell, level, vectors, recipe, device, progress, resumed)


def _trained(
    directory: Path,
    output: Path,
    cell: Cell,
    level: Level,
    vectors: Path | None,
    recipe: Recipe,
    device: str,
    progress: Progress,
    resumed: Resumed,
) -> Pipeline:
    splits = {split: read_split(directory, split) for split in ("train", "dev", "test")}
    tokenizer = TOKENIZERS["treebank" if level == "word" else "characters"]()
    pipeline = _untrained(splits["train"], tokenizer, cell, level, vectors, recipe)
    trainer = Trainer(pipeline.module, _phrases(pipeline, splits["train"]), recipe, device=torch.device(device))  # type: ignore[arg-type]
    checkpoint = output / "checkpoint.safetensors"
    if checkpoint.exists():
        trainer.resume(checkpoint)
        resumed(trainer.epoch, recipe.epochs)
    start = time.time()
    total = recipe.epochs * trainer.steps_per_epoch
    while trainer.epoch < recipe.epochs:
        done = trainer.epoch * trainer.steps_per_epoch
        trainer.run_epoch(lambda n, loss, done=done: progress(done + n, total, loss))
        trainer.write(checkpoint)
    trainer.average.write_into(trainer.module)
    record = _record(pipeline, splits, recipe, directory, trainer.device, seconds=time.time() - start, vectors=vectors)
    finished = replace(pipeline, module=trainer.module.cpu().eval(), record=record)
    finished.save(output)
    checkpoint.unlink(missing_ok=True)
    return finished


def _untrained(
    trees: list[Tree], tokenizer: Tokenizer, cell: Cell, level: Level, vectors: Path | None, recipe: Recipe
) -> Pipeline:
    words, numbers = read_vectors(vectors) if vectors is not None else ([], None)
    if level == "word":
        tokens = [token for tree in trees for token in tree.tokens] + words
    else:
        counts = Counter(c for tree in trees for tokens, _ in tree.phrases() for c in tokenizer.forms(tokens))
        tokens = [character for character, count in counts.most_common() if count >= RARE_CHARACTERS]
    vocabulary = Vocabulary(tokens)
    torch.manual_seed(recipe.seed)
    module = RecurrentClassifier(Architecture(len(vocabulary), len(CLASSES), cell, **SIZES[level]))
    start = (
        None if numbers is None else torch.from_numpy(fitted(words, numbers, vocabulary.tokens, size=SIZES[level]["embedding"]))
    )
    initialise(module, start)
    return Pipeline(module, tokenizer, vocabulary, CLASSES)


def _phrases(pipeline: Pipeline, trees: list[Tree]) -> list[tuple[list[int], int]]:
    """The ids and the label of every labelled phrase."""
    known: dict[tuple[str, ...], list[int]] = {}
    found: list[tuple[list[int], int]] = []
    for tree in trees:
        for tokens, label in tree.phrases():
            if tokens not in known:
                known[tokens] = pipeline.vocabulary.ids(pipeline.tokenizer.forms(tokens)) or [0]
            found.append((known[tokens], label))
    return found


def sentences(pipeline: Pipeline, trees: list[Tree]) -> list[tuple[list[int], int]]:
    """The ids and the label of every whole sentence."""
    return [(pipeline.vocabulary.ids(pipeline.tokenizer.forms(tree.tokens)), tree.label) for tree in trees]


def accuracies(pipeline: Pipeline, trees: list[Tree], *, device: torch.device | None = None) -> dict[str, float | None]:
    """The pipeline's accuracy on whole sentences, of five classes and of two; None where all sentences are neutral."""
    found = accuracy(*scores_of(pipeline.module, sentences(pipeline, trees), device=device or torch.device("cpu")))
    return {"five": found.five, "binary": None if math.isnan(found.binary) else found.binary}


def _record(
    pipeline: Pipeline,
    splits: dict[str, list[Tree]],
    recipe: Recipe,
    directory: Path,
    device: torch.device,
    *,
    seconds: float,
    vectors: Path | None,
) -> dict[str, object]:
    return {
        "data": {"name": "SST", "sha256": digest(directory)},
        "level": "char" if isinstance(pipeline.tokenizer, CharacterTokenizer) else "word",
        "vectors": None if vectors is None else vectors.name,
        "recipe": asdict(recipe),
        "dev": accuracies(pipeline, splits["dev"], device=device),
        "test": accuracies(pipeline, splits["test"], device=device),
        "seconds": round(seconds, 1),
        "device": device.type,
        "torch": torch.__version__,
    }
