"""How fast a corpus is explained, beside the engine alone, and how much memory it takes; in one run on this machine.

    python -m benchmarks.corpus [--sizes 10000 100000 1000000] [--workers 2] [--device cpu] [--folder DIR]

The sentences are drawn: their words from the model's vocabulary by Zipf's law, their lengths as in SST (19 words on average).
The rate of the engine is that of one process on the CPU, with sentences that lie in memory, split: of `whence.explain`,
which gives explanations, and of the bare engine, which gives tensors. It is measured before and after every size, in as many
processes at once as the corpus has workers, and the mean of both is taken: the machine may be busy with other things too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import mean

import numpy as np

from tests.corpus.killing import workers as workers_of
from whence.data.arrow import arrow

MIB = 2**20


def sentences(count: int, *, seed: int = 0) -> list[list[str]]:
    """Sentences of drawn words, split."""
    import whence

    words = [word for word in whence.load("sst-bilstm").vocabulary.tokens[1:] if word.isalpha()]
    random = np.random.default_rng(seed)
    lengths = np.clip(random.gamma(4.0, 4.5, count).astype(int), 2, 52)
    ranks = np.minimum(random.zipf(1.2, int(lengths.sum())) - 1, len(words) - 1)
    found, place = list[list[str]](), 0
    for length in lengths:
        found.append([*(words[rank] for rank in ranks[place : place + length]), "."])
        place += length
    return found


def write(path: Path, count: int) -> None:
    """A Parquet file of that many sentences, with ids."""
    pa = arrow()
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, count, 50_000):
            own = sentences(min(50_000, count - start), seed=start)
            texts = [" ".join(words[:-1]) + "." for words in own]
            writer.write_table(pa.table([list(range(start, start + len(own))), texts], schema=schema))


def engine_rates(count: int) -> tuple[float, float]:
    """Sentences per second in this process, on one thread: of explain, and of the bare engine."""
    import torch

    import whence
    from whence._batches import batches, cut
    from whence._explain import BATCH, answered
    from whence.methods.registry import method_of

    torch.set_num_threads(1)
    pipeline, method = whence.load("sst-bilstm"), method_of(None)
    given = [tuple(words) for words in sentences(count)]
    whence.explain(pipeline, given[:500])
    start = time.perf_counter()
    whence.explain(pipeline, given)
    explained = time.perf_counter() - start
    cuts = [cut(pipeline, words) for words in given]
    start = time.perf_counter()
    for _, forward in batches(pipeline, cuts, size=BATCH):
        answered(pipeline, forward, "predicted", method)
    return count / explained, count / (time.perf_counter() - start)


def rates_in(processes: int, count: int = 16_384) -> tuple[float, float]:
    """The sum of the rates of so many processes at once."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(engine_rates, [count] * processes))
    return sum(one for one, _ in found), sum(other for _, other in found)


def memory(process: int) -> int:
    """The resident bytes of a process now."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0


def explained(corpus: Path, out: Path, workers: int, device: str) -> tuple[float, float, list[int], list[int]]:
    """Seconds in all and up to the first part, and of every process the most bytes in the first and in the last quarter."""
    call = [sys.executable, "-m", "whence", "corpus", "explain", str(corpus), str(out), "--id", "id", "--workers", str(workers)]
    call += ["--device", device]
    start = time.perf_counter()
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL)
    samples: list[tuple[float, list[int]]] = []
    first = 0.0
    while process.poll() is None:
        time.sleep(0.1)
        if not first and out.exists() and any(out.glob("part-*")):
            first = time.perf_counter() - start
        samples.append((time.perf_counter() - start, [memory(each) for each in (process.pid, *workers_of(process.pid))]))
    seconds = time.perf_counter() - start
    assert process.returncode == 0

    def most(low: float, high: float) -> list[int]:
        own = [sizes for at, sizes in samples if low * seconds <= at <= high * seconds]
        return [max((sizes[n] for sizes in own if len(sizes) > n), default=0) for n in range(workers + 1)]

    return seconds, first, most(0.25, 0.5), most(0.75, 1)


def main() -> None:
    """Print a line for every size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**4, 10**5, 10**6])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        for size in options.sizes:
            write(folder / f"{size}.parquet", size)
        before = rates_in(options.workers)
        for size in options.sizes:
            seconds, first, early, late = explained(
                folder / f"{size}.parquet", folder / f"out-{size}", options.workers, options.device
            )
            after = rates_in(options.workers)
            rates = [mean(pair) for pair in zip(before, after, strict=True)]
            before = after
            found = json.loads((folder / f"out-{size}" / "manifest.json").read_text())
            assert found["complete"] and found["explained"] == size
            rate = size / seconds
            print(
                f"{size:>9,} sentences  {seconds:7.1f} s ({first:.1f} s to the first part)  {rate:7,.0f}/s  "
                f"{seconds / size * 1e6:6.0f} µs each  "
                f"of explain's {rates[0]:,.0f}/s {rate / rates[0]:5.0%}, of the bare engine's {rates[1]:,.0f}/s "
                f"{rate / rates[1]:5.0%}  "
                f"MiB in the second and the last quarter: {[each // MIB for each in early]} {[each // MIB for each in late]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
