"""A pipeline's texts as batches of token ids."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whence.engine.held import ModelParts, named_layers
from whence.errors import InputError, ModelError
from whence.methods.forward import Forward
from whence.methods.inputs import read
from whence.methods.predicting import predicting
from whence.methods.target import describe
from whence.models.pipeline import Pipeline
from whence.models.two_classes import end_of, is_single, two_scores
from whence.text.huggingface import HuggingFaceTokenizer
from whence.text.padded import PaddedTokenizer
from whence.text.tokenizer import Token, running_text

Text = str | tuple[str, ...]  # as a person wrote it, or already split into words


TOKENS = 2**15  # per batch, padding included: long texts go in smaller batches


class Cut(NamedTuple):
    """A text and its tokens: how the vocabulary spells each, and its place in the text."""

    text: str
    forms: Sequence[str]
    spans: tuple[tuple[int, int], ...]

    @staticmethod
    def of(text: str, tokens: Sequence[Token]) -> "Cut":
        """A text with the tokens that a tokenizer found."""
        if not tokens:
            return Cut(text, (), ())
        starts, ends, forms = zip(*tokens, strict=True)
        return Cut(text, forms, tuple(zip(starts, ends, strict=True)))

    def shown(self, pipeline: Pipeline) -> tuple[str, ...]:
        """The tokens as people read them: as written in the text, and by their names those that stand for none of it.

        Of several tokens that share a character, such as the bytes of an emoji, all but one are empty.
        """
        found = tuple(self.text[start:end] for start, end in self.spans)
        if "" not in found:
            return found
        tokenizer = pipeline.tokenizer
        marks = tokenizer.marks if isinstance(tokenizer, HuggingFaceTokenizer) else set(self.forms)
        return tuple(each or (form if form in marks else "") for each, form in zip(found, self.forms, strict=True))


def cut(pipeline: Pipeline, text: Text, *, name: str = "the text") -> Cut:
    """Split a text into the pipeline's tokens; given words stay as they are, unless the pipeline reads characters or pieces."""
    try:
        if isinstance(text, str):
            found = Cut.of(text, pipeline.tokenizer.tokens(text))
        elif isinstance(text, tuple) and all(isinstance(word, str) and word.strip(" ") for word in text):
            found = _cut_words(pipeline, text)
        else:
            found = None
        if found and (pipeline.vocabulary.unknown is None or isinstance(pipeline.tokenizer, HuggingFaceTokenizer)):
            _require_ids(pipeline, found)
    except InputError as error:
        raise InputError(f"{name} cannot be read: {error}") from error.__cause__
    if found is None:
        raise InputError(f"{name} is a {type(text).__name__}; give a string, or a tuple of words, none of them empty")
    if not found.forms:
        raise InputError(f"{name} is empty: there is no word to explain in {found.text[:20]!r}")
    return found


def _require_ids(pipeline: Pipeline, found: Cut) -> None:
    """Refuse tokens without an id, and ids that the embedding has no row for; for other vocabularies `embedding_of` does."""
    ids = pipeline.vocabulary.ids(found.forms)
    name, layer = _embedding(pipeline)
    largest = max(ids, default=0)
    if largest >= layer.num_embeddings:
        raise InputError(
            f"the token {found.forms[ids.index(largest)]!r} has the id {largest}; the module's nn.Embedding {name!r} has "
            f"{layer.num_embeddings} rows, for the ids 0 to {layer.num_embeddings - 1}"
        )


def _cut_words(pipeline: Pipeline, words: tuple[str, ...]) -> Cut:
    tokenizer = pipeline.tokenizer
    forms = tokenizer.forms(words)
    if len(forms) != len(words):
        text = running_text(words)
        return Cut.of(text, tokenizer.tokens(text))
    starts = accumulate((len(word) + 1 for word in words[:-1]), initial=0)
    text = " ".join(words)
    tokens = [Token(start, start + len(word), form) for start, word, form in zip(starts, words, forms, strict=False)]
    return Cut.of(text, tokenizer.filled(tokens, len(text)) if isinstance(tokenizer, PaddedTokenizer) else tokens)


def batches(
    pipeline: Pipeline, cuts: Sequence[Cut], *, size: int, deleted: Sequence[Sequence[int]] | None = None
) -> Iterator[tuple[list[int], Forward]]:
    """Batches of texts of similar length: the texts' numbers, and the forward pass over their token ids.

    `deleted`: for every text, the numbers of the tokens whose vectors are set to zero.
    """
    name, device = embedding_of(pipeline)
    for rows in groups(pipeline, [len(each.forms) for each in cuts], size):
        ids = [pipeline.vocabulary.ids(cuts[n].forms) for n in rows]
        longest = max(map(len, ids))
        filler = [pipeline.vocabulary.filler]
        padded = torch.tensor([own + filler * (longest - len(own)) for own in ids], device="cpu").to(device)
        more = lengths_for(pipeline.module, [len(each) for each in ids], device)
        gone = None if deleted is None else _places([deleted[n] for n in rows], padded)
        yield rows, finished(pipeline, Forward(pipeline.module, read(padded), kwargs=more, embedding=name, deleted=gone))


def finished(pipeline: Pipeline, forward: Forward) -> Forward:
    """A forward pass that gives the scores of two classes, if the module has one output for them."""
    if len(pipeline.classes) != 2:
        return forward
    module = pipeline.module
    try:
        with predicting(ModelParts(module)), torch.enable_grad():
            output = forward.run(lambda _, tensor: tensor.clone().requires_grad_()).output
    except Exception:  # a text that the module cannot read; it is reported where it is explained
        return forward
    if not isinstance(output, Tensor) or not is_single(output):
        return forward
    end = end_of(output)

    def finish(output: Tensor) -> Tensor:
        return two_scores(output.reshape(-1, 1), is_probability="Sigmoid" in end)

    return replace(forward, finish=finish)


def _places(deleted: Sequence[Sequence[int]], ids: Tensor) -> Tensor | None:
    """True at the deleted tokens of a batch; None if there are none."""
    if not any(deleted):
        return None
    found = torch.zeros_like(ids, dtype=torch.bool)
    for row, tokens in enumerate(deleted):
        found[row, list(tokens)] = True
    return found


def scores_of(pipeline: Pipeline, forward: Forward, embedded: Tensor | None = None) -> Tensor:
    """The scores (B, C) of a batch, or of `embedded` vectors in place of its own."""
    run = forward.predict(None if embedded is None else [embedded])
    return require_scores_of(pipeline, run.output, len(forward.inputs.tensors[0]))


def require_scores_of(pipeline: Pipeline, scores: object, count: int) -> Tensor:
    """The output of a pipeline's module for `count` texts; raises if it is not finite scores (B, C)."""
    found = scores_in(pipeline, scores, count)
    if not bool(found.isfinite().all()):
        raise ModelError("the module's scores are not finite numbers")
    return found


def scores_in(pipeline: Pipeline, scores: object, count: int) -> Tensor:
    """The output of a pipeline's module for `count` texts; raises if its shape is not (B, C)."""
    if not isinstance(scores, Tensor) or scores.shape != (count, len(pipeline.classes)):
        raise ModelError(
            f"the module gave {describe(scores)} for {count} texts; it must give one score for each of "
            f"{len(pipeline.classes)} classes"
        )
    return scores


def takes_lengths(module: nn.Module) -> bool:
    """Whether a module wants to know the lengths of its texts."""
    return "lengths" in inspect.signature(module.forward).parameters


def lengths_for(module: nn.Module, lengths: Sequence[int], device: torch.device) -> dict[str, object]:
    """What a module is told of its texts' lengths: `lengths` (B,), and an `attention_mask` (B, T) of ones and zeros."""
    found: dict[str, object] = {}
    if takes_lengths(module):
        found["lengths"] = torch.tensor(lengths, device="cpu")
    if "attention_mask" in inspect.signature(module.forward).parameters:
        steps = torch.arange(max(lengths), device=device)
        found["attention_mask"] = (steps < torch.tensor(lengths, device=device)[:, None]).long()
    return found


def groups(pipeline: Pipeline, lengths: Sequence[int], size: int) -> list[list[int]]:
    """Texts of similar length together; of the very same length for a module that takes no lengths."""
    order = sorted(range(len(lengths)), key=lambda n: lengths[n])
    same = not takes_lengths(pipeline.module)
    groups: list[list[int]] = []
    for n in order:
        fits = groups and len(groups[-1]) < size and (len(groups[-1]) + 1) * lengths[n] <= TOKENS
        if fits and (not same or lengths[groups[-1][0]] == lengths[n]):
            groups[-1].append(n)
        else:
            groups.append([n])
    return groups


def embedding_of(pipeline: Pipeline) -> tuple[str, torch.device]:
    """The name of the layer that embeds the pipeline's tokens, and its device."""
    name, layer = _embedding(pipeline)
    tokens = (
        1 + pipeline.vocabulary.filler if isinstance(pipeline.tokenizer, HuggingFaceTokenizer) else len(pipeline.vocabulary)
    )
    if layer.num_embeddings < tokens:
        raise ModelError(
            f"the module's nn.Embedding has {layer.num_embeddings} rows for a vocabulary of "
            f"{tokens} tokens, the unknown one included: the largest id is {tokens - 1}"
        )
    return name, layer.weight.device


def _embedding(pipeline: Pipeline) -> tuple[str, nn.Embedding]:
    found = [(name, each) for name, each in named_layers(pipeline.module) if isinstance(each, nn.Embedding)]
    if len(found) != 1:
        raise ModelError(f"the module has {len(found)} nn.Embedding layers; to explain words it must have one")
    return found[0]
