"""The public function `summarize`: the sentences, or spans of words, of a document that carry a decision."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from numbers import Real
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np

from whence._batches import batches, cut, scores_of
from whence._explain import BATCH, One, explain, explain_all, target_of
from whence.errors import InputError, TargetError
from whence.explanations import Explanations
from whence.methods.lrp import LRP
from whence.methods.method import Method
from whence.methods.registry import method_of
from whence.methods.target import Contrast, contrast
from whence.models.bundled import load_any
from whence.models.pipeline import Pipeline
from whence.summary import Part, Reading, Span, Summary
from whence.text.sentences import PARAGRAPH, sentence_spans
from whence.text.tokenizer import TreebankTokenizer

LONGEST = 100_000  # tokens of a document: the model reads it as one sequence, in 1 to 2 GB
LONGEST_SENTENCE = 200  # words; a longer one is explained, and chosen, in parts
WINDOW, GAP = 7, 2  # words of a span before spans are joined, and the widest gap that is closed then
EXACT = 2**24  # numbers in the table of an exact choice; beyond, sentences are chosen by relevance per word
TRIES = 16  # how many smaller summaries are tried if the first does not keep the decision

Unit = Literal["sentence", "span"]


class Task(NamedTuple):
    """What is to be summarized, and how."""

    pipeline: Pipeline
    text: str
    whole: Reading
    budget: float
    unit: str
    by: str
    method: Method


class Choice(NamedTuple):
    """Runs of words that are chosen, the most relevant first, and those that could be added, also the most relevant first."""

    chosen: list[range]
    spare: list[range]


class Words(NamedTuple):
    """The words of a document, their relevance, and the words of every sentence."""

    spans: list[Span]
    relevance: list[float]
    sentences: list[range]


def summarize(
    pipeline: Pipeline | str | Path,
    text: str,
    budget: float = 0.3,
    *,
    unit: Unit = "sentence",
    by: Literal["sentence", "document"] = "sentence",
    target: One | None = None,
    method: Method | str | None = None,
) -> Summary:
    """The sentences of a document that carry the model's decision, as a summary of at most `budget` of its words.

    `unit="span"` chooses runs of words instead. `by`: whether the model reads every sentence on its own when relevance is
    computed, or the document at once. The default method is LRP with δ = 1, where the relevance of a sentence is its score.

    `target` is that of `explain`. By default, it is the predicted class or, if that gives no summary that keeps the decision,
    the predicted class versus the rest.

    The sentences with the most relevance that fit are chosen. If the target is the predicted class and the model decides
    otherwise on these alone, then the most relevant of them are taken, as many as keep the decision, or else a few more. If no
    sentence for the target fits into the budget, spans are chosen.

        print(whence.summarize("sst-bilstm", "It rained. The film was a joy. We took the bus.", 0.5))
    """
    share = _require_call(text, budget, unit, by)
    if isinstance(pipeline, (str, Path)):
        pipeline = load_any(pipeline)
    if not isinstance(pipeline, Pipeline):
        raise InputError(f"the pipeline is a {type(pipeline).__name__}; give a whence.Pipeline, or a model by name or folder")
    method = LRP(delta=1.0) if method is None else method_of(method)
    _require_length(pipeline, text)
    (whole,) = _readings(pipeline, [text])
    task = Task(pipeline, text, whole, share, unit, by, method)
    if target is not None:
        return _summary(task, target)
    found = _summary(task, "predicted")
    if found.keeps_decision:
        return found
    other = _summary(task, contrast("predicted", "rest"))
    return other if other.keeps_decision and other.share else found  # a share of 0: nothing in it speaks for the decision


def _summary(task: Task, target: One) -> Summary:
    """The summary for one target."""
    question, is_decision = _question(task.pipeline, target, task.whole)
    words_of = _by_sentence if task.by == "sentence" else _by_document
    explanations, words = words_of(task.pipeline, task.text, question, task.method)
    most = max(1, math.floor(task.budget * len(words.spans) + 1e-9))
    choice = _sentences(words, most) if task.unit == "sentence" else Choice([], [])
    unit = "sentence" if choice.chosen else "span"
    choice = choice if choice.chosen else _windows(words, most)
    runs, alone = _read(task, words, choice, most, gap=0 if unit == "sentence" else GAP, keeps_decision=is_decision)
    return Summary(
        document=task.text,
        text=_joined(task.text, words, runs),
        spans=tuple(_place(words, run) for run in runs),
        parts=_parts(words, runs, unit),
        whole=task.whole,
        alone=alone,
        budget=task.budget,
        unit=unit,
        by=task.by,
        explanations=explanations,
    )


def _require_call(text: object, budget: object, unit: object, by: object) -> float:
    """The budget; raises if it, or another argument, cannot be used."""
    if not isinstance(text, str):
        raise InputError(f"text is a {type(text).__name__}; give one document, a string")
    if not text.strip():
        raise InputError("the document is empty: there is no word to summarize")
    for name, given, known in (("unit", unit, ("sentence", "span")), ("by", by, ("sentence", "document"))):
        if given not in known:
            raise InputError(f"{name} is {given!r}; give {' or '.join(map(repr, known))}")
    if not isinstance(budget, Real) or isinstance(budget, bool) or not 0 < float(budget) <= 1:
        raise InputError(
            f"budget is {budget!r}; give the share of the document's words to keep, more than 0 and at most 1, such as 0.3"
        )
    return float(budget)


def _require_length(pipeline: Pipeline, text: str) -> None:
    tokens = len(pipeline.tokenizer.tokens(text))
    if tokens > LONGEST:
        raise InputError(f"the document has {tokens} tokens; at most {LONGEST} can be summarized at once, so give a part of it")


def _readings(pipeline: Pipeline, texts: Sequence[str]) -> list[Reading]:
    """What the model decides on every text."""
    found: dict[int, Reading] = {}
    for rows, forward in batches(pipeline, [cut(pipeline, text, name="the document") for text in texts], size=BATCH):
        for n, scores in zip(rows, cast(list[list[float]], scores_of(pipeline, forward).tolist()), strict=True):
            best = scores.index(max(scores))
            found[n] = Reading(pipeline.classes[best], dict(zip(pipeline.classes, scores, strict=True)))
    return [found[n] for n in range(len(texts))]


def _question(pipeline: Pipeline, target: One, whole: Reading) -> tuple[One, bool]:
    """The target with the document's predicted class in place of "predicted", and whether it is that class."""
    best, given = pipeline.classes.index(whole.predicted), target_of(pipeline, target)
    if given == "all":
        raise TargetError('target is "all"; a summary is made for one class or contrast')
    if isinstance(given, Contrast):
        one, other = (best if each == "predicted" else each for each in (given.one, given.other))
        return contrast(one, other), one == best
    found = best if given == "predicted" else given
    return found, found == best


def _by_document(pipeline: Pipeline, text: str, target: One, method: Method) -> tuple[Explanations, Words]:
    """The explanation of the document, and its words; a word belongs to the sentence that it starts in."""
    explanation = explain(pipeline, text, target=target, method=method)
    words = explanation.by_word()
    ends = [end for _, end in sentence_spans(text)]
    numbers = np.searchsorted(ends, [start for start, _ in words.spans], side="right")
    firsts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    sentences = [part for start, end in pairwise(firsts) for part in _pieces_of(range(start, end))]
    return Explanations([explanation]), Words(list(words.spans), list(words.relevance), sentences)


def _pieces_of(sentence: range) -> list[range]:
    """A sentence, or the parts of a very long one."""
    return [sentence[n : n + LONGEST_SENTENCE] for n in range(0, len(sentence), LONGEST_SENTENCE)]


def _by_sentence(pipeline: Pipeline, text: str, target: One, method: Method) -> tuple[Explanations, Words]:
    """The explanations of all sentences, and the words of the document."""
    places = [part for span in sentence_spans(text) for part in _short(text, span)]
    places = [(start, end) for start, end in places if pipeline.tokenizer.tokens(text[start:end])] or [(0, len(text))]
    explanations = explain_all(pipeline, [text[start:end] for start, end in places], target=target, method=method)
    words = Words([], [], [])
    for (offset, _), explanation in zip(places, explanations, strict=True):
        each = explanation.by_word()
        words.sentences.append(range(len(words.spans), len(words.spans) + len(each.spans)))
        words.spans.extend((offset + start, offset + end) for start, end in each.spans)
        words.relevance.extend(each.relevance)
    return explanations, words


def _short(text: str, span: Span) -> list[Span]:
    """A sentence's place, or those of the parts of a very long one."""
    start, end = span
    words = TreebankTokenizer().tokens(text[start:end])
    parts = _pieces_of(range(len(words)))
    return [span] if len(parts) == 1 else [(start + words[part[0]].start, start + words[part[-1]].end) for part in parts]


def _sentences(words: Words, most: int) -> Choice:
    """The sentences that have the most relevance for the target within the budget, or the one that speaks least against it.

    None if no sentence fits, or none of those that speak for the target.
    """
    values = [sum(words.relevance[k] for k in each) for each in words.sentences]
    order = sorted(range(len(values)), key=lambda n: -values[n])
    fit = [n for n in order if len(words.sentences[n]) <= most]
    good = [n for n in fit if values[n] > 0]
    if not good and (values[order[0]] > 0 or not fit):
        return Choice([], [])
    taken = _knapsack([values[n] for n in good], [len(words.sentences[n]) for n in good], most)
    picked = [good[k] for k in taken] if good else fit[:1]
    chosen = [words.sentences[n] for n in sorted(picked, key=lambda n: -values[n])]
    left = [words.sentences[n] for n in fit if n not in {*picked}]
    return Choice(chosen, [left[k] for k in _fitting([*map(len, left)], most - sum(map(len, chosen)))])


def _fitting(sizes: Sequence[int], room: int) -> list[int]:
    """The numbers of those that fit, one after the other."""
    found: list[int] = []
    for n, size in enumerate(sizes):
        if size <= room:
            found.append(n)
            room -= size
    return found


def _knapsack(values: Sequence[float], sizes: Sequence[int], most: int) -> list[int]:
    """Which things of positive value to take so that their sizes add up to `most` at most and their values are largest.

    best(n, m) = max(best(n − 1, m), best(n − 1, m − size_n) + value_n), for things 1 … n within size m. Where that table would
    be too large, things are taken by value per size, as long as they fit.
    """
    if sum(sizes) <= most:
        return list(range(len(values)))
    if len(values) * (most + 1) > EXACT:
        order = sorted(range(len(values)), key=lambda n: -values[n] / sizes[n])
        return [order[k] for k in _fitting([sizes[n] for n in order], most)]
    best, taken = np.zeros(most + 1), np.zeros((len(values), most + 1), dtype=bool)
    for n, (value, size) in enumerate(zip(values, sizes, strict=True)):
        if size > most:
            continue
        with_it = best[: most + 1 - size] + value
        taken[n, size:] = with_it > best[size:]
        best[size:] = np.maximum(best[size:], with_it)
    room, found = most, list[int]()
    for n in reversed(range(len(values))):
        if taken[n, room]:
            found.append(n)
            room -= sizes[n]
    return found


def _windows(words: Words, most: int) -> Choice:
    """Runs of words inside sentences that have the most relevance for the target and do not overlap; at least one."""
    size = min(WINDOW, most)
    sums = [0.0, *accumulate(words.relevance)]
    every = [
        range(start, min(start + size, each.stop))
        for each in words.sentences
        for start in range(each.start, max(each.start + 1, each.stop - size + 1))
    ]
    every.sort(key=lambda run: sums[run.start] - sums[run.stop])
    apart, is_taken = list[range](), np.zeros(len(words.spans), dtype=bool)
    for run in every:
        if not is_taken[run.start : run.stop].any():
            is_taken[run.start : run.stop] = True
            apart.append(run)
    fitting = [apart[k] for k in _fitting([*map(len, apart)], most)]
    count = max(1, sum(sums[run.stop] > sums[run.start] for run in fitting))
    return Choice(fitting[:count], fitting[count:])


def _read(
    task: Task, words: Words, choice: Choice, most: int, *, gap: int, keeps_decision: bool
) -> tuple[list[range], Reading]:
    """What was chosen as runs of words, and the model's reading of it.

    If it should keep the decision and does not, the most relevant part that keeps it is taken; if there is none, as little more
    as keeps it; and if nothing does, what was chosen.
    """

    def read(choices: Sequence[Sequence[range]]) -> list[tuple[list[range], Reading]]:
        runs = [_runs(each, most, gap=gap) for each in choices]
        return list(zip(runs, _readings(task.pipeline, [_joined(task.text, words, each) for each in runs]), strict=True))

    (first,) = read([choice.chosen])
    if not keeps_decision or first[1].predicted == task.whole.predicted:
        return first
    fewer = [choice.chosen[:count] for count in reversed(_counts(len(choice.chosen) - 1))]
    more = [[*choice.chosen, *choice.spare[:count]] for count in _counts(len(choice.spare))]
    kept = [found for found in read([*fewer, *more]) if found[1].predicted == task.whole.predicted]
    return kept[0] if kept else first


def _counts(most: int) -> list[int]:
    """Some of the numbers from 1 to `most`, in order and evenly spaced."""
    return sorted({*np.linspace(1, most, min(TRIES, most)).round().astype(int).tolist()}) if most else []


def _runs(chosen: Sequence[range], most: int, *, gap: int) -> list[range]:
    """Runs of words in order: neighbours are joined, and across gaps of up to `gap` words as long as there is room."""
    room = most - sum(map(len, chosen))
    found: list[range] = []
    for run in sorted(chosen, key=lambda each: each.start):
        between = run.start - found[-1].stop if found else most
        if found and (between == 0 or (between <= gap and between <= room)):
            found[-1] = range(found[-1].start, run.stop)
            room -= between
        else:
            found.append(run)
    return found


def _place(words: Words, run: range) -> Span:
    return words.spans[run[0]][0], words.spans[run[-1]][1]


def _joined(text: str, words: Words, runs: Sequence[range]) -> str:
    """The runs of words as one text; between those of different paragraphs is an empty line."""
    places = [_place(words, run) for run in runs]
    between = ["\n\n" if PARAGRAPH.search(text, one[1], other[0]) else " " for one, other in pairwise(places)]
    return "".join(text[start:end] + gap for (start, end), gap in zip(places, [*between, ""], strict=True))


def _parts(words: Words, runs: Sequence[range], unit: str) -> tuple[Part, ...]:
    """The sentences, or words, of the document."""
    is_kept = np.zeros(len(words.spans), dtype=bool)
    for run in runs:
        is_kept[run.start : run.stop] = True
    every = words.sentences if unit == "sentence" else [range(n, n + 1) for n in range(len(words.spans))]
    return tuple(
        Part(*_place(words, each), sum(words.relevance[n] for n in each), len(each), bool(is_kept[each.start]))
        for each in every
    )
