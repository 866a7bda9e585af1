"""How often a summary alone keeps the decision on a whole document, against random and leading sentences.

    python benchmarks/summaries.py --sst DIR

Documents are made of 10 to 20 shuffled test sentences of SST: a few very positive or very negative ones among neutral ones, or
some of both. Kept means that the model predicts the same of its five classes from the summary alone as from the whole document.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from functools import cache
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
import torch

import whence
from whence import _summary
from whence._summary import TRIES, Choice, Task
from whence.data.sst import Tree, find_sst, read_split
from whence.evaluation.bootstrap import Numbers, mean_band
from whence.methods.target import Contrast
from whence.text.running import running_text

REST = whence.contrast("predicted", "rest")
BUDGETS = (0.1, 0.2, 0.3, 0.5)
KINDS = ("one side", "both sides")
LENGTHS = range(5, 41)  # words of a sentence


def shuffled(count: int, chance: random.Random) -> list[float]:
    """A value for every sentence that puts them in random order."""
    return [chance.random() for _ in range(count)]


def leading(count: int, _: random.Random) -> list[float]:
    """A value for every sentence that puts the first ones first."""
    return [float(count - n) for n in range(count)]


class Way(NamedTuple):
    """A way to choose sentences; `ranking` replaces relevance by other numbers, if it is given."""

    label: str
    by: Literal["sentence", "document"] = "sentence"
    target: Contrast | str | None = None
    delta: float = 1.0
    unit: Literal["sentence", "span"] = "sentence"
    tries: bool = True  # whether fewer or more sentences are tried if the decision is not kept
    ranking: Callable[[int, random.Random], list[float]] | None = None


WAYS = (
    Way("summarize"),
    Way("  only versus the rest", target=REST),
    Way("  only the predicted class's score", target="predicted"),
    Way("  versus the rest, first choice", target=REST, tries=False),
    Way("  relevance without the biases (δ = 0)", delta=0.0),
    Way("  the document read at once", by="document"),
    Way("  spans of words", unit="span"),
    Way("random sentences", tries=False, ranking=shuffled),
    Way("  trying fewer", ranking=shuffled),
    Way("leading sentences", tries=False, ranking=leading),
    Way("  trying fewer", ranking=leading),
)


def documents(trees: Sequence[Tree], count: int, kind: str, chance: random.Random) -> list[str]:
    """Documents of one kind, as running text."""
    sides = {label: [tree for tree in trees if tree.label == label] for label in (0, 2, 4)}
    found: list[str] = []
    for _ in range(count):
        strong, weak = chance.sample((0, 4), 2)
        many, few = chance.randint(3, 5), chance.randint(1, 2) if kind == "both sides" else 0
        trees = chance.sample(sides[strong], many) + chance.sample(sides[weak], few)
        trees += chance.sample(sides[2], chance.randint(10, 20) - len(trees))
        chance.shuffle(trees)
        found.append(" ".join(running_text(tree.tokens).capitalize() for tree in trees))
    return found


def kept(pipeline: whence.Pipeline, texts: Sequence[str], way: Way) -> tuple[Numbers, Numbers]:
    """For every text and budget, 1 if the decision is kept; and the share of words that the summary has."""
    chance = random.Random(1)
    shape = (len(texts), len(BUDGETS))
    found, shares = np.zeros(shape), np.zeros(shape)
    _summary.TRIES = TRIES if way.tries else 0
    for row, text in enumerate(texts):
        for column, budget in enumerate(BUDGETS):
            found[row, column], shares[row, column] = _summarized(pipeline, text, budget, way, chance)
    return found, shares


def _summarized(pipeline: whence.Pipeline, text: str, budget: float, way: Way, chance: random.Random) -> tuple[bool, float]:
    """Whether the decision is kept, and the share of words."""
    if way.ranking is None:
        method = whence.LRP(delta=way.delta)
        found = whence.summarize(pipeline, text, budget, unit=way.unit, by=way.by, target=way.target, method=method)
        return found.keeps_decision, found.words / found.document_words
    (whole,) = _summary._readings(pipeline, [text])
    _, words = _summary._by_sentence(pipeline, text, pipeline.classes.index(whole.predicted), whence.LRP(delta=way.delta))
    values, most = way.ranking(len(words.sentences), chance), max(1, int(budget * len(words.spans) + 1e-9))
    order = [words.sentences[n] for n in sorted(range(len(values)), key=lambda n: -values[n])]
    chosen = [order[n] for n in _summary._fitting([*map(len, order)], most)] or [order[0][:most]]
    task = Task(pipeline, text, whole, budget, way.unit, way.by, whence.LRP())
    runs, alone = _summary._read(task, words, Choice(chosen, []), most, gap=0, keeps_decision=way.tries)
    return alone.predicted == whole.predicted, sum(map(len, runs)) / len(words.spans)


def main() -> None:
    """Print a table for every model and kind of document."""
    parser = argparse.ArgumentParser(description="How often summaries keep the decision.")
    parser.add_argument("--sst", help="the folder of SST; else $WHENCE_SST")
    parser.add_argument("--documents", type=int, default=100, help="documents of each kind")
    parser.add_argument("--model", action="append", help="a bundled model; may be given several times")
    given = parser.parse_args()
    torch.set_num_threads(1)
    _summary._by_sentence = cache(_summary._by_sentence)  # the same for all budgets
    _summary._by_document = cache(_summary._by_document)
    trees = [tree for tree in read_split(find_sst(given.sst), "test") if len(tree.tokens) in LENGTHS]
    start = perf_counter()
    for name in given.model or ["sst-bilstm", "sst-bigru"]:
        pipeline = whence.load(name)
        for kind in KINDS:
            texts = documents(trees, given.documents, kind, random.Random(0))
            print(f"\n{name}, {len(texts)} documents, {kind}: decision kept in % [95 % interval], and words in %")
            print(f"{'budget':38}" + "".join(f"{100 * budget:>16.0f} %  " for budget in BUDGETS))
            for way in WAYS:
                found, shares = kept(pipeline, texts, way)
                low, high = mean_band(found)
                cells = zip(found.mean(0), low, high, shares.mean(0), strict=True)
                shown = (f"{100 * a:4.0f} [{100 * b:3.0f}, {100 * c:3.0f}] {100 * d:3.0f}  " for a, b, c, d in cells)
                print(f"{way.label:38}" + "".join(shown), flush=True)
    print(f"\n{perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
