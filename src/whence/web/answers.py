"""From a request that was checked to its answer: which lane it goes to, what it runs there, and the JSON that comes back."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whence import __version__
from whence._explain import explain
from whence.errors import WhenceError
from whence.evaluation.deletion import deletion_order, random_orders, scores_without
from whence.explanation import Explanation, Explanations
from whence.methods.method import Method
from whence.methods.registry import method_class, settings_of
from whence.models.pipeline import Pipeline
from whence.render.formats import rendered
from whence.web import limits
from whence.web.lanes import Job, Lane
from whence.web.metrics import Metrics
from whence.web.offered import EXAMPLES, Offered, described_methods
from whence.web.refusal import Refusal
from whence.web.requests import Ask, DeletionRequest, ExplainRequest, RenderRequest, SeriesRequest

ORDERS = 10  # random orders beside the one by relevance
READ = 2**18  # tokens that a deletion curve may read; for a long text it ends earlier
QUICK = 1_024  # tokens; a larger request goes to the slow lane, where it holds up no small one


class Key(NamedTuple):
    """Texts of different requests with equal keys are explained in one call."""

    model: str
    method: Method
    encoders: bool
    is_all: bool


class Texts(NamedTuple):
    """What one request asks `explain` for."""

    pipeline: Pipeline
    key: Key
    texts: list[str]
    targets: list[int | str]


class Answers:
    """The service's answers, apart from HTTP."""

    def __init__(self, offered: Offered, metrics: Metrics) -> None:
        self.offered = offered
        self.quick = Lane("quick", metrics, most=512, room=16 * QUICK, batch=2 * QUICK)
        self.slow = Lane("slow", metrics, most=32, room=256 * QUICK, batch=QUICK)

    def close(self) -> None:
        """End the threads."""
        self.quick.close()
        self.slow.close()

    def models(self) -> bytes:
        """The models, methods, examples and limits."""
        found = {
            "version": __version__,
            "models": self.offered.described(),
            "default": {"text": self.offered.default, "series": None},
            "methods": described_methods(),
            "examples": [{"text": text, "note": note} for text, note in EXAMPLES],
            "limits": {"texts": limits.TEXTS, "tokens": limits.TOKENS, "body": limits.BODY, "steps": limits.STEPS},
        }
        return encoded(found)

    async def explain(self, asked: ExplainRequest) -> bytes:
        """The explanations of the texts as JSON."""
        return await self._ask(asked, explained_as_json)

    async def render(self, asked: RenderRequest) -> bytes:
        """The explanations of the texts as a document."""
        found: Explanations = await self._ask(asked, explained)
        per_text = len(found) // len(asked.texts)
        groups = [found[n * per_text : (n + 1) * per_text] for n in range(len(asked.texts))]
        return rendered(groups, asked.format).encode("utf-8", errors="replace")

    async def deletion(self, asked: DeletionRequest) -> bytes:
        """How the prediction changes as words are deleted."""
        name = self.offered.require(asked.model)
        size = _size(asked.text, 0, self.offered.reads_characters(name))
        target = _target(self.offered.classes(name), asked.target, name)
        if target == "all":
            raise Refusal(422, 'target is "all"; a deletion curve is about one class: give its name, or "predicted"')
        if asked.versus is not None:
            raise Refusal(422, "versus is not there yet")
        key = Key(name, _method(asked), encoders=False, is_all=False)
        wanted = Texts(self.offered.pipeline(name), key, [asked.text], [target])
        return await self._found(self.slow, Job(lambda jobs: [deleted(jobs[0].asked, asked.steps)], object(), size, wanted))

    async def series(self, asked: SeriesRequest) -> bytes:
        """The explanation of a series."""
        raise Refusal(404, "there is no series model")

    async def _ask(self, asked: ExplainRequest, run: Any) -> Any:
        name = self.offered.require(asked.model)
        by_character = self.offered.reads_characters(name)
        sizes = [_size(text, n, by_character) for n, text in enumerate(asked.texts)]
        if asked.versus is not None or asked.deleted is not None:
            raise Refusal(422, "versus and deleted are not there yet")
        target = _target(self.offered.classes(name), asked.target, name)
        key = Key(name, _method(asked), asked.encoders, target == "all")
        wanted = Texts(self.offered.pipeline(name), key, asked.texts, [target] * len(asked.texts))
        lane = self.quick if sum(sizes) <= QUICK else self.slow
        return await self._found(lane, Job(run, key, sum(sizes), wanted))

    async def _found(self, lane: Lane, job: Job) -> Any:
        try:
            return await lane.result(job)
        except WhenceError as error:
            raise Refusal(422, str(error)) from None


def encoded(found: object) -> bytes:
    """JSON; numbers are written as Python writes them, as in `whence explain --format json`."""
    return json.dumps(found, allow_nan=False).encode()


def explained(jobs: Sequence[Job]) -> list[Explanations]:
    """The explanations of every job, from one call of `explain`."""
    asked: list[Texts] = [job.asked for job in jobs]
    first = asked[0]
    for each in asked:
        for n, text in enumerate(each.texts):
            _require_length(each.pipeline, text, n)
    texts = [text for each in asked for text in each.texts]
    targets = [target for each in asked for target in each.targets]
    target: Any = targets[0] if len(set(targets)) == 1 else targets
    found = explain(first.pipeline, texts, target=target, method=first.key.method, encoders=first.key.encoders)
    per_text = len(found) // len(texts)
    parts: list[Explanations] = []
    start = 0
    for each in asked:
        end = start + per_text * len(each.texts)
        parts.append(found[start:end])
        start = end
    return parts


def explained_as_json(jobs: Sequence[Job]) -> list[bytes]:
    """As `explained`, written as JSON."""
    return [encoded({"explanations": [_plain(each) for each in found]}) for found in explained(jobs)]


def deleted(asked: Texts, steps: int | None) -> bytes:
    """How the target's probability changes as the words are deleted by relevance, and in random orders."""
    (text,), pipeline = asked.texts, asked.pipeline
    _require_length(pipeline, text, 0)
    explanation = explain(pipeline, text, target=asked.targets[0], method=asked.key.method)
    count = len(explanation.tokens)
    last = min(count if steps is None else steps, count, max(1, READ // (count * (1 + ORDERS))))
    orders = [deletion_order(explanation, "decreasing"), *random_orders([count] * ORDERS, seed=0)]
    scores = scores_without(pipeline, text, orders, steps=last).astype("float64")
    odds = np.exp(scores - scores.max(-1, keepdims=True))
    probability: NDArray[np.float64] = (odds / odds.sum(-1, keepdims=True))[..., pipeline.classes.index(explanation.target)]
    predicted: list[int] = scores[0].argmax(-1).tolist()
    by_chance = probability[1:]
    return encoded(
        {
            "target": explanation.target,
            "tokens": explanation.tokens,
            "order": orders[0],
            "probability": probability[0].tolist(),
            "predicted": [pipeline.classes[n] for n in predicted],
            "random": {
                "mean": by_chance.mean(0).tolist(),
                "low": by_chance.min(0).tolist(),
                "high": by_chance.max(0).tolist(),
                "orders": ORDERS,
            },
        }
    )


def _plain(explanation: Explanation) -> dict[str, Any]:
    found = explanation.to_dict()
    return {
        "text": found.pop("text"),
        "tokens": found.pop("tokens"),
        "spans": explanation.spans,
        "unknown": explanation.unknown,
        "relevance": found.pop("relevance"),
        "score": explanation.score,
        **found,
        **({"encoders": explanation.encoders} if explanation.encoders else {}),
    }


def _method(asked: Ask) -> Method:
    """The method with those of the settings that it has."""
    given = {"epsilon": asked.epsilon, "delta": asked.delta}
    known = settings_of(asked.method)
    try:
        return method_class(asked.method)(**{name: each for name, each in given.items() if each is not None and name in known})
    except WhenceError as error:
        raise Refusal(422, str(error)) from None


def _target(classes: Sequence[str], target: str | int, model: str) -> int | str:
    """A class's number, "predicted" or "all"."""
    if isinstance(target, int):
        if target >= len(classes):
            raise Refusal(422, f"target {target} does not exist: {model} has {len(classes)} classes, from 0 on")
        return target
    if target in classes:
        return classes.index(target)
    if target in ("predicted", "all"):
        return target
    folded = [name.casefold() for name in classes]
    if folded.count(target.casefold()) == 1:
        return folded.index(target.casefold())
    raise Refusal(422, f'there is no such class; {model} knows {", ".join(classes)}; "predicted" and "all" are possible too')


def _size(text: str, n: int, by_character: bool) -> int:
    """About how many tokens a text has, at least one; refuses what is certainly empty or too long without splitting it."""
    if len(text) > limits.CHARACTERS:
        raise Refusal(422, f"text {n + 1} has {len(text)} characters; a text has at most {limits.CHARACTERS}: split it")
    if not text or (not by_character and not text.strip()):
        raise Refusal(422, f"text {n + 1} is empty: there is no word to explain; write at least one")
    pieces = len(text) if by_character else len(text.split())
    if pieces > limits.TOKENS:
        raise _too_long(n)
    return pieces


def _require_length(pipeline: Pipeline, text: str, n: int) -> None:
    """Refuse a text with too many tokens; one with fewer characters than that need not be counted."""
    if len(text) > limits.TOKENS and len(pipeline.tokenizer.tokens(text)) > limits.TOKENS:
        raise _too_long(n)


def _too_long(n: int) -> Refusal:
    return Refusal(422, f"text {n + 1} has more than {limits.TOKENS} tokens, the most for one text; split it")
