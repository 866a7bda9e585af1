"""Kills jobs, parents and workers, at random moments, and compares what they leave with an unbroken run's, to the last byte.

    python -m benchmarks.corpus_kills [--kills 50] [--rows 6000] [--seed 0]

A job that is done before all kills are spent is compared, and another one is begun.
"""

import argparse
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.corpus.killing import command, run_with_kills
from tests.corpus.outputs import accounted, everything
from tests.corpus.test_job import write_corpus

OPTIONS = ("--id", "id", "--workers", "2", "--part-rows", "100")


def main() -> None:
    """Print what was killed and what was compared."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        corpus = write_corpus(folder / "in.jsonl", options.rows)
        start = time.perf_counter()
        subprocess.run(command(corpus, folder / "whole", *OPTIONS), check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        print(f"an unbroken run of {options.rows:,} rows: {seconds:.1f} s")
        total = Counter[str]()
        while total["parent"] + total["worker"] < options.kills:
            out = folder / f"out-{total['done']}"
            left = options.kills - total["parent"] - total["worker"]
            call = command(corpus, out, *OPTIONS)
            total += run_with_kills(call, kills=left, longest=seconds, seed=options.seed + total["done"])
            accounted(out, options.rows)
            assert everything(out) == everything(folder / "whole")
            print(
                f"killed so far: {total['parent']} parents, {total['worker']} workers; {total['done']} jobs identical",
                flush=True,
            )


if __name__ == "__main__":
    main()
