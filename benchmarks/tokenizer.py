"""How much faster the treebank tokenizer is than the same tokens by NLTK, on SST's test sentences, in one run on one thread.

    python -m benchmarks.tokenizer [FOLDER OF SST]

Both take turns, and processor time is counted, so that other programs disturb little. The first pass knows no words yet.
"""

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

from tests.oracle import treebank as oracle
from whence.data.sst import find_sst, read_split
from whence.text import tokenizer
from whence.text.tokenizer import TreebankTokenizer, running_text

PASSES = 5


def microseconds(tokens: Callable[[str], object], texts: Sequence[str]) -> float:
    """The processor time of one text."""
    start = time.process_time()
    for text in texts:
        tokens(text)
    return (time.process_time() - start) / len(texts) * 1e6


def compare(name: str, texts: Sequence[str]) -> None:
    """Print both times and their ratio, for the first pass and for the median of the others."""
    tokens = TreebankTokenizer().tokens
    assert all(tokens(text) == oracle.tokens(text) for text in texts)
    tokenizer._CHUNKS.clear()
    times = [(microseconds(oracle.tokens, texts), microseconds(tokens, texts)) for _ in range(PASSES)]
    rest = [median(column) for column in zip(*times[1:], strict=True)]
    for label, (old, new) in (("first pass", times[0]), ("later", rest)):
        print(f"{name:24} {label:10}  NLTK {old:6.1f} µs  whence {new:5.1f} µs  ratio {old / new:5.1f}")


if __name__ == "__main__":
    trees = read_split(find_sst(*sys.argv[1:2]), "test")
    compare("running text", [running_text(tree.tokens) for tree in trees])
    compare("words joined by spaces", [" ".join(tree.tokens) for tree in trees])
