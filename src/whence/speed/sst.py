"""What explaining all of SST's test sentences costs, from the recurrent layer alone to finished explanations."""

from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from whence._batches import batches, cut
from whence._explain import BATCH, explain_all
from whence.data.sst import read_split
from whence.methods.lrp import LRP
from whence.methods.method import Question
from whence.models.bundled import load_any
from whence.models.classifier import RecurrentClassifier
from whence.speed.oracle import oracle_seconds
from whence.speed.results import Value
from whence.speed.timing import interleaved, ratio
from whence.threads import one_thread


def whole_test_set(directory: Path, *, repeats: int = 5, sampled: int = 100) -> dict[str, Value]:
    """LRP with one relevance per word, and `explain`, on SST's test set, relative to the layer's packed forward pass.

    The tests' NumPy oracle is timed on about `sampled` of the sentences.
    """
    pipeline = load_any("sst-bilstm")
    module = pipeline.module
    assert isinstance(module, RecurrentClassifier)
    texts = [tree.tokens for tree in read_split(directory, "test")]
    forwards = [forward for _, forward in batches(pipeline, [cut(pipeline, text) for text in texts], size=BATCH)]
    embedded = [(each.predict().tensors[0], cast(Tensor, each.kwargs["lengths"])) for each in forwards]

    def packed() -> None:
        with torch.no_grad():
            for inputs, lengths in embedded:
                module.encoder(pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False))

    def lrp() -> None:
        for each in forwards:
            LRP().answer(each, Question(0, by_step=True))

    with one_thread():
        times = interleaved(
            {"forward": packed, "lrp": lrp, "explain": lambda: explain_all(pipeline, texts, target=0)}, "cpu", repeats
        )
        rows = [
            inputs[n, :length] for inputs, lengths in embedded for n, length in enumerate(cast(list[int], lengths.tolist()))
        ]
        some = rows[:: max(1, len(rows) // sampled)]
        oracle = oracle_seconds(module.encoder, module.head.weight, some)
    found: dict[str, Value] = {"sentences": len(texts)}
    found |= ratio("lrp_over_forward", times, "lrp", "forward") | ratio("explain_over_forward", times, "explain", "forward")
    if oracle is not None:  # scaled by words, because the chosen sentences differ from the average length
        words = sum(map(len, rows)) / sum(map(len, some)) * len(some)
        found["oracle_over_lrp"] = oracle * words / min(times["lrp"])
    return found
