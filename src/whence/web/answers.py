"""From a request that was checked to its answer: which lane it goes to, what runs there, and what comes back."""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence import __version__
from whence._explain import explain, explain_all
from whence._series import explain_series
from whence.errors import InputError, WhenceError
from whence.evaluation.deletion import deletion_order, random_orders, scores_without
from whence.explanations import Explanations
from whence.methods.method import Method
from whence.methods.registry import method_class, settings_of
from whence.methods.runs import BEFORE_RUN
from whence.methods.target import Contrast, contrast
from whence.models.pipeline import Pipeline, class_of
from whence.render.formats import rendered
from whence.web import limits
from whence.web.guards import GoneError
from whence.web.lanes import Job, Lane
from whence.web.metrics import Metrics
from whence.web.offered import EXAMPLES, Offered, described_methods
from whence.web.refusal import Refusal
from whence.web.requests import Ask, DeletionRequest, ExplainRequest, RenderRequest, SeriesRequest, TextAsk

ORDERS, FEW_ORDERS = 10, 3  # random orders beside the one by relevance; few if the whole curve would read too many tokens
READ = 2**15  # tokens that a deletion curve may read; for a long text it ends earlier
QUICK = 1_024  # tokens; a larger request goes to the slow lane, where it holds up no small one
PIECE = 8 * QUICK  # tokens; a long request stops between two pieces of this size when its client has left
WORD = re.compile(r"\w+|[^\w\s]")  # a token of most tokenizers, or more than one of them
EMPTY = "{} is empty: there is no word to explain; write at least one"


class Key(NamedTuple):
    """Texts of different requests with equal keys are explained in one call."""

    model: str
    method: Method
    encoders: bool
    is_all: bool


class Texts(NamedTuple):
    """What one request wants to know about its texts."""

    offered: Offered
    key: Key
    texts: Sequence[str]
    sizes: Sequence[int]  # about how many tokens are computed for each text
    target: int | str | Contrast
    deleted: Sequence[Sequence[int]] | None = None
    format: str | None = None  # of the document; None for the service's own JSON
    steps: int | None = None  # of a deletion curve

    @property
    def pipeline(self) -> Pipeline:
        """The model; it is loaded here, in a lane's thread, when nobody has used it yet."""
        return self.offered.pipeline(self.key.model)


class Answers:
    """The service's answers, apart from HTTP."""

    def __init__(self, offered: Offered, metrics: Metrics) -> None:
        self.offered = offered
        self.quick = Lane("quick", metrics, most=512, room=16 * QUICK, batch=2 * QUICK)
        self.slow = Lane("slow", metrics, most=32, room=256 * QUICK, batch=QUICK)

    @property
    def is_busy(self) -> bool:
        """Whether a thread still runs something, if only for clients that were told to wait no longer."""
        return self.quick.is_busy or self.slow.is_busy

    def close(self) -> None:
        """End the threads."""
        self.quick.close()
        self.slow.close()

    def models(self) -> bytes:
        """The models, methods, examples and limits."""
        found = {
            "version": __version__,
            "models": self.offered.described(),
            "default": {"text": self.offered.default, "series": self.offered.default_series},
            "methods": described_methods(),
            "examples": [{"text": text, "note": note} for text, note in EXAMPLES],
            "limits": {"texts": limits.TEXTS, "tokens": limits.TOKENS, "body": limits.BODY, "steps": limits.STEPS},
        }
        return encoded(found)

    async def explain(self, asked: ExplainRequest) -> bytes:
        """The explanations of texts, as JSON or as a document."""
        wanted, size = self._wanted(asked, asked.texts)
        if asked.deleted is not None and len(asked.deleted) != len(asked.texts):
            raise Refusal(422, f"deleted has {len(asked.deleted)} lists for {len(asked.texts)} texts; give one for each")
        wanted = wanted._replace(deleted=asked.deleted, format=asked.format if isinstance(asked, RenderRequest) else None)
        if wanted.format == "svg" and (len(asked.texts) > 1 or wanted.key.is_all):
            raise Refusal(422, "an SVG image shows one explanation; ask for html, or for one text and one class")
        return await _result(self.quick if size <= QUICK else self.slow, Job(explained, wanted.key, size, wanted))

    async def deletion(self, asked: DeletionRequest) -> bytes:
        """How the prediction changes as words are deleted."""
        wanted, size = self._wanted(asked, [asked.text])
        if wanted.key.is_all:
            raise Refusal(422, 'target is "all"; a deletion curve is about one class: give its name, or "predicted"')
        return await _result(self.slow, Job(curve, object(), size, wanted._replace(steps=asked.steps)))

    async def series(self, asked: SeriesRequest) -> bytes:
        """The explanation of a series."""
        name, method = self.offered.require_series(asked.model), _method(asked)
        size = method.work(len(asked.values))
        _require_work(method, size, len(asked.values))
        lane = self.quick if size <= QUICK else self.slow
        return await _result(lane, Job(series, object(), size, (self.offered, name, method, asked)))

    def _wanted(self, asked: TextAsk, texts: Sequence[str]) -> tuple[Texts, int]:
        """What a request asks for, and about how many tokens it has."""
        name = self.offered.require(asked.model)
        by_character = self.offered.reads_characters(name)
        classes = self.offered.classes(name)
        target = _target(classes, asked.target, asked.versus, name)
        key = Key(name, _method(asked), isinstance(asked, ExplainRequest) and asked.encoders, target == "all")
        times, targets = 2 if key.encoders else 1, len(classes) if key.is_all else 1
        tokens = [_size(text, n, by_character) for n, text in enumerate(texts)]
        sizes = [times * key.method.work(each, targets=targets) for each in tokens]
        _require_work(key.method, sum(sizes), times * targets * sum(tokens))
        return Texts(self.offered, key, texts, sizes, target), sum(sizes)


async def _result(lane: Lane, job: Job) -> bytes:
    try:
        return await lane.result(job)
    except InputError as error:
        if "there is no word to explain" not in str(error):
            raise Refusal(422, str(error)) from None
        raise Refusal(422, EMPTY.format("a text")) from None  # the library quotes the text
    except WhenceError as error:
        if isinstance(error.__cause__, Exception) and not isinstance(error.__cause__, WhenceError):
            raise  # the model failed; the sentence quotes what it said, which can quote the user's numbers
        raise Refusal(422, str(error)) from None


def encoded(found: object) -> bytes:
    """JSON; numbers are written as Python writes them, as in `whence explain --format json`."""
    return json.dumps(found, allow_nan=False).encode()


def explained(jobs: Sequence[Job]) -> list[bytes]:
    """The answer to every job, from one call of `explain`."""
    asked: list[Texts] = [job.asked for job in jobs]
    pipeline, key = asked[0].pipeline, asked[0].key
    for each in asked:
        for n, text in enumerate(each.texts):
            _require_length(pipeline, text, n)
    texts = [text for each in asked for text in each.texts]
    targets = [each.target for each in asked for _ in each.texts]
    is_same = len(set(targets)) == 1
    deleted = [tokens for each in asked for tokens in each.deleted or [()] * len(each.texts)]
    found = Explanations()
    pieces = _pieces(asked[0].sizes) if len(jobs) == 1 else [slice(0, len(texts))]
    for each in pieces:
        _require_wanted(jobs)
        with _while_wanted(jobs):
            found += explain_all(
                pipeline, texts[each], target=targets[0] if is_same else targets[each], method=key.method,
                encoders=key.encoders, deleted=deleted[each], check="model",
            )  # fmt: skip
    per_text = len(found) // len(texts)
    answers: list[bytes] = []
    start = 0
    for each in asked:
        end = start + per_text * len(each.texts)
        answers.append(_written(found[start:end], each, per_text))
        start = end
    return answers


def _pieces(sizes: Sequence[int]) -> Iterator[slice]:
    """Consecutive texts of about PIECE tokens together."""
    start = total = 0
    for n, size in enumerate(sizes):
        if n > start and total + size > PIECE:
            yield slice(start, n)
            start, total = n, 0
        total += size
    yield slice(start, len(sizes))


def _require_wanted(jobs: Sequence[Job]) -> None:
    """Stop when nobody waits for the answer any more."""
    if all(job.future.done() for job in jobs):
        raise GoneError


@contextmanager
def _while_wanted(jobs: Sequence[Job]) -> Generator[None]:
    """Stop a method between two runs of the model when nobody waits for the answer any more."""
    token = BEFORE_RUN.set(lambda: _require_wanted(jobs))
    try:
        yield
    finally:
        BEFORE_RUN.reset(token)


def _written(found: Explanations, asked: Texts, per_text: int) -> bytes:
    if asked.format is None:
        # one by one: Python cannot do anything else while it writes one piece of JSON
        return b'{"explanations": [' + b", ".join(encoded(each.to_dict()) for each in found) + b"]}"
    groups = [found[n : n + per_text] for n in range(0, len(found), per_text)]
    return rendered(groups, asked.format).encode("utf-8", errors="replace")


def series(jobs: Sequence[Job]) -> list[bytes]:
    """The explanation of every job's series."""
    with _while_wanted(jobs):
        return [_series(*job.asked) for job in jobs]


def _series(offered: Offered, name: str, method: Method, asked: SeriesRequest) -> bytes:
    model = offered.series(name)
    output = 0 if asked.output is None else asked.output
    names = model.outputs
    if names and (output not in names if isinstance(output, str) else output >= len(names)):
        raise Refusal(422, f"there is no such output; {name} gives {', '.join(names)}, numbered from 0")
    blank = [(each.start, each.end, each.features) for each in asked.blank]
    features = asked.features or ()
    found = explain_series(model, asked.values, output=output, method=method, blank=blank, features=features, check="model")
    return encoded(found.to_dict())


def curve(jobs: Sequence[Job]) -> list[bytes]:
    """How the target's probability changes as the words are deleted by relevance, and in random orders."""
    return [_curve(job.asked, job) for job in jobs]


def _curve(asked: Texts, job: Job) -> bytes:
    (text,), pipeline = asked.texts, asked.pipeline
    _require_length(pipeline, text, 0)
    with _while_wanted([job]):
        explanation = explain(pipeline, text, target=asked.target, method=asked.key.method)
    count = len(explanation.tokens)
    last, chance = _extent(count, asked.steps)
    orders = [deletion_order(explanation, "decreasing"), *random_orders([count] * chance, seed=0)]
    scores = scores_without(pipeline, text, orders, steps=last, before_batch=lambda: _require_wanted([job])).astype("float64")
    if scores.shape[-1] == 1:
        scores = np.concatenate([scores, np.zeros_like(scores)], -1)  # a single score's probability is its sigmoid
    odds = np.exp(scores - scores.max(-1, keepdims=True))
    probability: NDArray[np.float64] = (odds / odds.sum(-1, keepdims=True))[..., pipeline.classes.index(explanation.target)]
    predicted: list[int] = scores[0, :, : len(pipeline.classes)].argmax(-1).tolist()
    by_chance = probability[1:]
    return encoded(
        {
            "target": explanation.target,
            "tokens": explanation.tokens,
            "order": orders[0],
            "steps": last,
            "probability": probability[0].tolist(),
            "predicted": [pipeline.classes[n] for n in predicted],
            "random": {
                "mean": by_chance.mean(0).tolist(),
                "low": by_chance.min(0).tolist(),
                "high": by_chance.max(0).tolist(),
                "orders": chance,
            },
        }
    )


def _extent(count: int, steps: int | None) -> tuple[int, int]:
    """How many of a text's `count` words a curve deletes, and in how many random orders, so that it reads READ tokens."""
    wanted = min(count if steps is None else steps, count)
    chance = ORDERS if (1 + ORDERS) * (wanted + 1) * count <= READ else FEW_ORDERS
    return min(wanted, max(1, READ // (count * (1 + chance)) - 1)), chance


def _method(asked: Ask) -> Method:
    """The method with those of the settings that it has."""
    given = {"epsilon": asked.epsilon, "delta": asked.delta}
    known = settings_of(asked.method)
    try:
        return method_class(asked.method)(**{name: each for name, each in given.items() if each is not None and name in known})
    except WhenceError as error:
        raise Refusal(422, str(error)) from None


def _require_work(method: Method, size: int, tokens: int) -> None:
    """Refuse what would take a method too long that runs the model many times; others have the limits of a text alone."""
    if tokens < size > limits.WORK:
        raise Refusal(
            422,
            f"{method.label} runs the model many times, here over about {size:,} tokens or steps in all, and the most is "
            f"{limits.WORK:,}; give fewer or shorter texts, a shorter series, or another method",
        )


def _target(classes: Sequence[str], target: str | int, versus: str | None, model: str) -> int | str | Contrast:
    """A class's number, "predicted", "all" or a contrast."""
    one = _class(classes, target, model)
    if versus is None:
        return one
    other = "rest" if versus == "rest" else _class(classes, versus, model)
    if "all" in (one, other) or other in (one, "predicted"):
        raise Refusal(422, 'versus needs one target and another class; give that class by its name, or "rest"')
    return contrast(one, other)


def _class(classes: Sequence[str], target: str | int, model: str) -> int | str:
    """A class's number, "predicted" or "all"."""
    if isinstance(target, int):
        if target >= len(classes):
            raise Refusal(422, f"target {target} does not exist: {model} has {len(classes)} classes, from 0 on")
        return target
    if target in ("predicted", "all"):
        return target
    if (found := class_of(classes, target)) is not None:
        return found
    raise Refusal(422, f'there is no such class; {model} knows {", ".join(classes)}; "predicted" and "all" are possible too')


def _size(text: str, n: int, by_character: bool) -> int:
    """About how many tokens a text has, at least one; refuses what is certainly empty or too long without splitting it."""
    if len(text) > limits.CHARACTERS:
        raise Refusal(422, f"text {n + 1} has {len(text)} characters; a text has at most {limits.CHARACTERS}: split it")
    if not text or (not by_character and not text.strip()):
        raise Refusal(422, EMPTY.format(f"text {n + 1}"))
    if (len(text) if by_character else len(text.split(maxsplit=limits.TOKENS))) > limits.TOKENS:
        raise _too_long(n)
    if by_character:
        return len(text)
    words = sum(1 for _ in islice(WORD.finditer(text), limits.TOKENS))
    return max(words, len(text) // 16, 1)  # a long word takes time too


def _require_length(pipeline: Pipeline, text: str, n: int) -> None:
    """Refuse a text with too many tokens; one with fewer characters than that need not be counted."""
    if len(text) > limits.TOKENS and len(pipeline.tokenizer.tokens(text)) > limits.TOKENS:
        raise _too_long(n)


def _too_long(n: int) -> Refusal:
    return Refusal(422, f"text {n + 1} has more than {limits.TOKENS} tokens, the most for one text; split it")
