"""How much faster all phrases of a sentence are in one pass than one by one, by contextual decomposition.

    python benchmarks/phrases.py

The ratio is of one run: both are timed in turn, and the best of each counts.
"""

from time import perf_counter

import torch

import whence
from whence._phrases import _every_run, _scores

TEXT = (
    "it is not a waste of time , and although the plot is far from new , the actors are "
    "funny enough to make this film worth a visit ."
)
ROUNDS, SAMPLED = 3, 31  # one by one, every so many phrases are timed, as all of them take minutes


def main() -> None:
    """Print both times and their ratio."""
    torch.set_num_threads(1)
    pipeline = whence.load("sst-bilstm")
    spans = _every_run(len(whence.explain(pipeline, TEXT).tokens))
    some = spans[::SAMPLED]
    at_once, one_by_one = list[float](), list[float]()
    for _ in range(ROUNDS):
        at_once.append(_seconds(pipeline, [spans]))
        one_by_one.append(_seconds(pipeline, [[span] for span in some]) * len(spans) / len(some))
    fast, slow = min(at_once), min(one_by_one)
    print(f"{len(spans)} phrases: {fast:.2f} s at once, {slow:.1f} s one by one, ratio {slow / fast:.0f}")


def _seconds(pipeline: whence.Pipeline, batches: list[list[tuple[int, int]]]) -> float:
    start = perf_counter()
    for spans in batches:
        _scores(pipeline, TEXT, "predicted", spans)
    return perf_counter() - start


if __name__ == "__main__":
    main()
