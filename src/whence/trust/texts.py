"""Texts and the pipeline that reads them; the units are words, and a word is taken away by setting its vectors to zero."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence._batches import Cut, Text, cut, embedding_of, finished, groups, lengths_for, scores_in
from whence._explain import explain_all
from whence.evaluation.words import word_groups
from whence.explanation import Explanation
from whence.methods.forward import Forward
from whence.methods.inputs import read
from whence.methods.method import Method
from whence.methods.target import Contrast, rest_weights
from whence.models.pipeline import Pipeline
from whence.trust.subject import Against, Mask, Numbers, Report, Subject, as_scores, silent

ROWS = 512  # texts that are scored at once, at most
TRAINED = 32  # texts in a batch of training
SHARED = 2**17  # tokens squared that are explained at once: the time of a backward pass grows with the square


@dataclass(frozen=True, eq=False, kw_only=True)
class Texts(Subject):
    """Texts, the pipeline that reads them, and the class that is explained in each."""

    pipeline: Pipeline
    texts: Sequence[Text]

    @property
    def module(self) -> nn.Module:
        """The pipeline's module."""
        return self.pipeline.module

    @cached_property
    def _words(self) -> list[list[range]]:
        return [word_groups(self.pipeline, text) for text in self.texts]

    @cached_property
    def _cuts(self) -> list[Cut]:
        return [cut(self.pipeline, text) for text in self.texts]

    @cached_property
    def _ids(self) -> list[Tensor]:
        return [torch.tensor(self.pipeline.vocabulary.ids(each.forms), device="cpu") for each in self._cuts]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of words of each text."""
        return np.array([len(words) for words in self._words], dtype=np.int64)

    def scores(self, rows: Sequence[int], gone: Sequence[Mask], *, report: Report = silent) -> Numbers:
        """The scores (N, C) of texts without some of their words."""
        found = np.full((len(rows), len(self.pipeline.classes)), np.nan)
        for part, forward in self._forwards(rows, gone):
            found[part] = self._scores(forward.predict().output, len(part))
            report(len(part))
        return found

    def _scores(self, output: object, count: int) -> Numbers:
        return as_scores(scores_in(self.pipeline, output, count), are_probabilities=self.are_probabilities)

    def _forwards(self, rows: Sequence[int], gone: Sequence[Mask], *, size: int = ROWS) -> Iterator[tuple[list[int], Forward]]:
        """Batches of similar length: places in `rows`, and the forward pass over the texts without these words."""
        name, device = embedding_of(self.pipeline)
        for part in groups(self.pipeline, [len(self._ids[n]) for n in rows], size):
            own = [self._ids[rows[k]] for k in part]
            ids = nn.utils.rnn.pad_sequence(own, batch_first=True, padding_value=self.pipeline.vocabulary.filler)
            deleted = torch.zeros_like(ids, dtype=torch.bool)
            for place, k in enumerate(part):
                mask = self._of_tokens(rows[k], gone[k])
                deleted[place, : len(mask)] = torch.from_numpy(mask)
            more = lengths_for(self.module, [len(self._ids[rows[k]]) for k in part], ids.device)
            given = read(ids.to(device))
            forward = Forward(self.module, given, kwargs=more, embedding=name, deleted=deleted.to(device))
            yield part, finished(self.pipeline, forward)

    def _of_tokens(self, row: int, mask: Mask) -> Mask:
        """A mask of words as one of tokens."""
        if len(mask) == len(self._ids[row]):
            return mask
        return np.repeat(mask, [len(word) for word in self._words[row]])

    def relevance(self, method: Method, *, against: Against, report: Report = silent) -> list[Numbers]:
        """The relevance of every word of every text."""
        found: list[Numbers] = [np.empty(0)] * len(self)
        for part in self._batches():
            for n, each in zip(part, self.explained(part, method, against=against), strict=True):
                found[n] = np.asarray(each.relevance, dtype=np.float64)
            report(len(part))
        return found

    def relevance_both(self, method: Method, *, report: Report = silent) -> dict[Against, list[Numbers]]:
        """With R_c the relevance for class c: R_a of the class a that is explained, and R_a − Σ_{c≠a} q_c R_c (`rest_weights`).

        This is what the methods that share their runs among the classes give for both: they are linear in the score.
        """
        if not (method.shares_runs and method.explains_score):
            return super().relevance_both(method, report=report)
        found: dict[Against, list[Numbers]] = {each: [np.empty(0)] * len(self) for each in ("score", "rest")}
        classes = len(self.pipeline.classes)
        for part in self._batches():
            flat = explain_all(self.pipeline, [self.texts[n] for n in part], target="all", method=method)
            for k, n in enumerate(part):
                every = [each.by_word(self._words[n]) for each in flat[k * classes : (k + 1) * classes]]
                by_class = np.array([each.relevance for each in every])  # (C, T)
                output = torch.tensor([list(every[0].scores.values())], dtype=torch.double)
                scores = torch.from_numpy(as_scores(output, are_probabilities=self.are_probabilities))
                found["score"][n] = by_class[self.of[n]]
                found["rest"][n] = rest_weights(torch.tensor([self.of[n]], device="cpu"), scores)[0].numpy() @ by_class
            report(len(part))
        return found

    def explained(self, rows: Sequence[int], method: Method, *, against: Against) -> list[Explanation]:
        """The explanations of some texts, by word."""
        classes = [int(self.of[n]) for n in rows]
        target = [Contrast(each, "rest") for each in classes] if against == "rest" else classes
        flat = explain_all(self.pipeline, [self.texts[n] for n in rows], target=target, method=method)
        return [each.by_word(self._words[n]) for n, each in zip(rows, flat, strict=True)]

    def _batches(self) -> Iterator[list[int]]:
        """Texts of similar length, as many as are explained at once."""
        part: list[int] = []
        for n in sorted(range(len(self)), key=lambda n: len(self._ids[n])):
            if part and len(part) >= min(256, SHARED // len(self._ids[n]) ** 2):
                yield part
                part = []
            part.append(n)
        if part:
            yield part

    def outputs(self) -> Iterator[tuple[Tensor, list[int]]]:
        """The module's scores with their graph, and the numbers of the texts."""
        rows = range(len(self))
        for part, forward in self._forwards(rows, self.untouched(rows), size=TRAINED):
            output = forward.model(*forward.inputs.tensors, **forward.kwargs)
            yield output if forward.finish is None else forward.finish(output), part

    def with_module(self, module: nn.Module) -> "Texts":
        """The same texts, read by another module."""
        return replace(self, pipeline=replace(self.pipeline, module=module))

    def parts(self, rows: Sequence[int]) -> dict[str, object]:
        """The texts of these numbers."""
        return {"texts": [self.texts[n] for n in rows]}

    def content(self, row: int) -> object:
        """The text."""
        return self.texts[row]

    def class_name(self, number: int) -> str:
        """What a class is called."""
        return self.pipeline.classes[number]

    def unit_names(self, row: int) -> list[str]:
        """The words of a text."""
        found = self._cuts[row]
        spans = [(found.spans[word[0]][0], found.spans[word[-1]][1]) for word in self._words[row]]
        return [found.text[start:end].rstrip() for start, end in spans]
