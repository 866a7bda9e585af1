"""The one place where the text wing meets the method wing: pipeline and texts in, explanations out."""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass, replace
from typing import Any, cast, overload

import torch
from torch import Tensor, nn

from whence.errors import InputError, ModelError, TargetError
from whence.explanation import Explanation
from whence.methods.forward import EmbeddedForward, predicting
from whence.methods.lrp import LRP
from whence.methods.method import Method
from whence.methods.target import Target, describe
from whence.models.pipeline import Pipeline
from whence.result import Result
from whence.text.tokenizer import Token

BATCH = 64


@overload
def explain(  # pyright: ignore[reportOverlappingOverload] - a string is no list of texts here
    pipeline: Pipeline, texts: str, *, target: str | int = ..., method: Method | None = ..., encoders: bool = ...
) -> Explanation: ...
@overload
def explain(
    pipeline: Pipeline, texts: Sequence[str], *, target: str | int = ..., method: Method | None = ..., encoders: bool = ...
) -> list[Explanation]: ...
def explain(
    pipeline: Pipeline,
    texts: str | Sequence[str],
    *,
    target: str | int = "predicted",
    method: Method | None = None,
    encoders: bool = False,
) -> Explanation | list[Explanation]:
    """Explain a text, or a list of them in batches.

    `target`: a class by name or number, `"predicted"`, or `"all"`, which gives one explanation per class for every text, in
    order. `encoders=True` also keeps what came through each direction of a bidirectional layer.

        pipeline = whence.load("sst-bilstm")
        print(whence.explain(pipeline, "neither funny nor suspenseful"))
    """
    if method is not None and (isinstance(method, (str, type)) or not hasattr(method, "relevance")):
        raise InputError(f"method is {method!r}; give a method with its settings, such as method=whence.LRP()")
    if not isinstance(texts, (str, Sequence)):
        raise InputError(f"texts is a {type(texts).__name__}; give a string or a list of strings")
    single = isinstance(texts, str)
    given = [texts] if isinstance(texts, str) else list(texts)
    wanted = _target(pipeline, target)
    tokens = [_tokens(pipeline, text, n, single=single) for n, text in enumerate(given)]
    found: list[list[Explanation]] = [[] for _ in given]
    for rows in _groups(pipeline, [len(each) for each in tokens]):
        batch = _explained(pipeline, [(given[n], tokens[n]) for n in rows], wanted, method or LRP(), encoders=encoders)
        for n, explanations in zip(rows, batch, strict=True):
            found[n] = explanations
    flat = [explanation for explanations in found for explanation in explanations]
    return flat[0] if single and wanted != "all" else flat


def _target(pipeline: Pipeline, target: str | int) -> str | int:
    """The target as an index, or "predicted", or "all"."""
    if isinstance(target, int) and not isinstance(target, bool):
        if not 0 <= target < len(pipeline.classes):
            raise TargetError(f"target {target} does not exist: {pipeline.name} has {len(pipeline.classes)} classes, from 0 on")
        return target
    if target in pipeline.classes:
        return pipeline.classes.index(target)
    if target in ("predicted", "all"):
        return target
    folded = [name.casefold() for name in pipeline.classes]
    if folded.count(str(target).casefold()) == 1:
        return folded.index(str(target).casefold())
    known = ", ".join(pipeline.classes)
    raise TargetError(f'there is no class {target!r}; {pipeline.name} knows {known}; "predicted" and "all" are possible too')


def _tokens(pipeline: Pipeline, text: Any, number: int, *, single: bool) -> list[Token]:
    which = "the text" if single else f"text {number + 1}"
    if not isinstance(text, str):
        raise InputError(f"{which} is a {type(text).__name__}; give a string")
    tokens = pipeline.tokenizer.tokens(text)
    if not tokens:
        raise InputError(f"{which} is empty: there is no word to explain in {text[:20]!r}")
    return tokens


def _takes_lengths(module: nn.Module) -> bool:
    return "lengths" in inspect.signature(module.forward).parameters


def _groups(pipeline: Pipeline, lengths: Sequence[int]) -> list[list[int]]:
    """Batches of texts of similar length; of the very same length for a module that takes no lengths."""
    order = sorted(range(len(lengths)), key=lambda n: lengths[n])
    same = not _takes_lengths(pipeline.module)
    groups: list[list[int]] = []
    for n in order:
        if groups and len(groups[-1]) < BATCH and (not same or lengths[groups[-1][0]] == lengths[n]):
            groups[-1].append(n)
        else:
            groups.append([n])
    return groups


def _explained(
    pipeline: Pipeline, texts: Sequence[tuple[str, list[Token]]], target: str | int, method: Method, *, encoders: bool
) -> list[list[Explanation]]:
    """For every text of a batch its explanation, or one for every class."""
    lengths = torch.tensor([len(tokens) for _, tokens in texts])
    rows = [torch.tensor(pipeline.vocabulary.ids([token.form for token in tokens])) for _, tokens in texts]
    device = _embedding(pipeline).weight.device
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)
    more = {"lengths": lengths} if _takes_lengths(pipeline.module) else {}
    embedding = _embedding(pipeline)
    with predicting(pipeline.module), torch.no_grad():
        scores = pipeline.module(ids, **more)
        embedded = embedding(ids)
    if not isinstance(scores, Tensor) or scores.shape != (len(texts), len(pipeline.classes)):
        raise ModelError(
            f"the module gave {describe(scores)} for {len(texts)} texts; it must give one score for each of "
            f"{len(pipeline.classes)} classes"
        )
    if not bool(scores.isfinite().all()):
        raise ModelError("the module's scores are not finite numbers")
    chosen = cast(Target, scores.argmax(1).cpu() if target == "predicted" else target)
    forward = EmbeddedForward(pipeline.module, embedded, (), more, embedding=embedding, ids=ids)
    result = method.relevance(forward, chosen)
    if result.explained is not None and (result.gap.abs() > 1e-4 * result.score.abs().clamp(min=1)).any():
        # single precision does not last through so long a text; double precision may
        module = copy.deepcopy(pipeline.module).double()
        forward = replace(
            forward, model=module, inputs=embedded.double(), embedding=_embedding(replace(pipeline, module=module))
        )
        result = method.relevance(forward, chosen).check(1e-4)
    shares = _directions(method, forward, chosen, result) if encoders else []
    return [
        _assembled(pipeline, text, tokens, ids[n], scores[n], result, n, target, method, shares)
        for n, (text, tokens) in enumerate(texts)
    ]


def _embedding(pipeline: Pipeline) -> nn.Embedding:
    found = [module for module in pipeline.module.modules() if isinstance(module, nn.Embedding)]
    if len(found) != 1:
        raise ModelError(f"the module has {len(found)} nn.Embedding layers; to explain words it must have one")
    if found[0].num_embeddings < len(pipeline.vocabulary):
        raise ModelError(
            f"the module's nn.Embedding has {found[0].num_embeddings} rows for a vocabulary of "
            f"{len(pipeline.vocabulary)} tokens, the unknown one included"
        )
    return found[0]


def _directions(method: Method, forward: EmbeddedForward, target: Any, whole: Result) -> list[Result]:
    """What came through the forward and through the backward direction, two results that add up to the whole."""
    if "direction" not in inspect.signature(method.relevance).parameters:
        raise InputError(f"{type(method).__name__} does not keep the directions apart; leave out encoders=True")
    shares = [cast(Any, method).relevance(forward, target, direction=d) for d in (0, 1)]
    if method.name == "sa":
        return shares  # squares, taken in each direction alone, do not add up
    together = cast(Tensor, shares[0].relevance) + cast(Tensor, shares[1].relevance)
    if not torch.allclose(together, cast(Tensor, whole.relevance), rtol=1e-3, atol=1e-4):
        raise InputError("encoders=True needs a model whose first recurrent layer alone reads the words, in both directions")
    return shares


def _assembled(
    pipeline: Pipeline,
    text: str,
    tokens: Sequence[Token],
    ids: Tensor,
    scores: Tensor,
    result: Result,
    row: int,
    target: str | int,
    method: Method,
    shares: Sequence[Result],
) -> list[Explanation]:
    classes = pipeline.classes
    numbers = {name: float(score) for name, score in zip(classes, scores.tolist(), strict=True)}
    predicted = classes[int(scores.argmax())]
    chosen = list(range(len(classes))) if target == "all" else [int(scores.argmax()) if target == "predicted" else int(target)]
    settings = asdict(cast(Any, method)) if is_dataclass(method) else {}
    found: list[Explanation] = []
    for k, index in enumerate(chosen):
        place = (k, row) if target == "all" else (row,)

        def words(relevance: Any, place: tuple[int, ...] = place) -> tuple[float, ...]:
            return tuple(relevance[place][: len(tokens)].sum(-1).tolist())

        found.append(
            Explanation(
                text=text,
                tokens=tuple(text[token.start : token.end] for token in tokens),
                spans=tuple((token.start, token.end) for token in tokens),
                unknown=tuple(number == 0 for number in ids[: len(tokens)].tolist()),
                relevance=words(result.relevance),
                scores={**numbers, classes[index]: float(result.score[place])},
                predicted=predicted,
                target=classes[index],
                method={"name": method.name, **settings},
                absorbed={name: float(amount[place]) for name, amount in result.absorbed.items()},
                model=pipeline.name,
                encoders=tuple(words(share.relevance) for share in shares),
            )
        )
    return found
