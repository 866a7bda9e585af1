"""How often a summary alone keeps the decision on a whole document, against random and leading sentences.

    python benchmarks/summaries.py --sst DIR

Documents are made of 10 to 20 shuffled test sentences of SST: a few very positive or very negative ones among neutral ones, or
some of both. For every way to choose, the table has three numbers: how often the decision is kept, that is, the model predicts
the same of its five classes from the summary alone as from the document; how many of the document's words the summary has; and
how many of the summary's words are of the strong sentences of the document's side.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from time import perf_counter, process_time
from typing import Literal, NamedTuple

import numpy as np
import torch

import whence
from whence import _summary
from whence._summary import TRIES, Choice, Task
from whence.data.sst import Tree, find_sst, read_split
from whence.evaluation.bootstrap import Numbers, mean_band
from whence.methods.target import Contrast
from whence.summary import Reading
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


class Document(NamedTuple):
    """A text, and where its strong sentences of one side are."""

    text: str
    strong: list[tuple[int, int]]

    def is_strong(self, place: int) -> bool:
        """Whether a place is in a strong sentence."""
        return any(start <= place < end for start, end in self.strong)


def documents(trees: Sequence[Tree], count: int, kind: str, chance: random.Random) -> list[Document]:
    """Documents of one kind, as running text."""
    sides = {label: [tree for tree in trees if tree.label == label] for label in (0, 2, 4)}
    found: list[Document] = []
    for _ in range(count):
        side, other = chance.sample((0, 4), 2)
        many, few = chance.randint(3, 5), chance.randint(1, 2) if kind == "both sides" else 0
        chosen = chance.sample(sides[side], many) + chance.sample(sides[other], few)
        chosen += chance.sample(sides[2], chance.randint(10, 20) - len(chosen))
        chance.shuffle(chosen)
        sentences = [running_text(tree.tokens).capitalize() for tree in chosen]
        starts = accumulate((len(each) + 1 for each in sentences[:-1]), initial=0)
        places = [(start, start + len(each)) for start, each in zip(starts, sentences, strict=True)]
        strong = [place for place, tree in zip(places, chosen, strict=True) if tree.label == side]
        found.append(Document(" ".join(sentences), strong))
    return found


def measured(pipeline: whence.Pipeline, texts: Sequence[Document], way: Way) -> Numbers:
    """For every document and budget (N, budgets, 3): 1 if the decision is kept, the share of words, and that of strong ones."""
    chance = random.Random(1)
    _summary.TRIES = TRIES if way.tries else 0
    return np.array([[_summarized(pipeline, text, budget, way, chance) for budget in BUDGETS] for text in texts])


def _summarized(
    pipeline: whence.Pipeline, document: Document, budget: float, way: Way, chance: random.Random
) -> tuple[float, float, float]:
    """Whether the decision is kept, the share of words, and how many of these are strong."""
    text, method = document.text, whence.LRP(delta=way.delta)
    if way.ranking is None:
        found = whence.summarize(pipeline, text, budget, unit=way.unit, by=way.by, target=way.target, method=method)
        strong = sum(part.words for part in found.parts if part.is_kept and document.is_strong(part.start))
        return found.keeps_decision, found.words / found.document_words, strong / found.words
    (whole,) = _summary._readings(pipeline, [text])
    _, words = _summary._by_sentence(pipeline, text, pipeline.classes.index(whole.predicted), method)
    values, most = way.ranking(len(words.sentences), chance), max(1, int(budget * len(words.spans) + 1e-9))
    order = [words.sentences[n] for n in sorted(range(len(values)), key=lambda n: -values[n])]
    chosen = [order[n] for n in _summary._fitting([*map(len, order)], most)] or [order[0][:most]]
    task = Task(pipeline, text, whole, budget, way.unit, way.by, method)
    runs, alone = _summary._read(task, words, Choice(chosen, []), most, gap=0, keeps_decision=way.tries)
    kept = [n for run in runs for n in run]
    strong = sum(document.is_strong(words.spans[n][0]) for n in kept)
    return alone.predicted == whole.predicted, len(kept) / len(words.spans), strong / len(kept)


def _compute_once() -> None:
    """Keep what is the same for several budgets and ways: explanations, and what the model decides."""
    read = cache(_summary._readings)

    def readings(pipeline: whence.Pipeline, texts: Sequence[str]) -> list[Reading]:
        return read(pipeline, tuple(texts))

    _summary._readings = readings
    _summary._by_sentence = cache(_summary._by_sentence)
    _summary._by_document = cache(_summary._by_document)


def main() -> None:
    """Print a table for every model and kind of document."""
    parser = argparse.ArgumentParser(description="How often summaries keep the decision.")
    parser.add_argument("--sst", help="the folder of SST; else $WHENCE_SST")
    parser.add_argument("--documents", type=int, default=150, help="documents of each kind")
    parser.add_argument("--model", action="append", help="a bundled model; may be given several times")
    given = parser.parse_args()
    torch.set_num_threads(1)
    _compute_once()
    trees = [tree for tree in read_split(find_sst(given.sst), "test") if len(tree.tokens) in LENGTHS]
    start = perf_counter()
    for name in given.model or ["sst-bilstm", "sst-bigru"]:
        pipeline = whence.load(name)
        for kind in KINDS:
            texts = documents(trees, given.documents, kind, random.Random(0))
            print(f"\n{name}, {len(texts)} documents, {kind}: decision kept % [95 % interval] | words % | strong %")
            print(f"{'budget':38}" + "".join(f"{100 * budget:>20.0f} %  " for budget in BUDGETS))
            for way in WAYS:
                found = measured(pipeline, texts, way)
                low, high = mean_band(found[..., 0])
                cells = zip(100 * found.mean(0), 100 * low, 100 * high, strict=True)
                shown = (f"{a[0]:4.0f} [{b:3.0f}, {c:3.0f}] |{a[1]:3.0f} |{a[2]:3.0f}  " for a, b, c in cells)
                print(f"{way.label:38}" + "".join(shown), flush=True)
    print(f"\n{perf_counter() - start:.0f} s, of which {process_time():.0f} s on the processor")


if __name__ == "__main__":
    main()
