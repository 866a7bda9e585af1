"""A method's answer, and beside it the model's own, if that is asked for."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from whence.equations import Rules
from whence.errors import InputError
from whence.methods.baseline import baselines
from whence.methods.following import following
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.methods.occlusion import Occlusion
from whence.methods.perturbing import Study, study
from whence.methods.predicting import predicting
from whence.methods.witness import Witness, answer_of, followed
from whence.result import ModelAnswer, Result

AT = 'check="model" takes steps of the inputs away, and at= explains what a layer gave; leave out one of them'


def answered(forward: Forward, question: Question, method: Method) -> Result:
    """The method's answer; with `question.asks_model` the model is asked about its signs, if it has any."""
    if question.asks_model and question.at is not None:
        raise InputError(AT)
    result = method.answer(forward, question)
    if not question.asks_model or not method.is_signed or result.answer is not None:
        return result
    return replace(result, answer=_asked(forward, question, method, result))


def _asked(forward: Forward, question: Question, method: Method, result: Result) -> ModelAnswer:
    """Ask in plain runs; in followed ones if the explained score is not made of what the model returns."""
    with predicting(forward.parts) as state:
        with torch.no_grad():
            known = study(forward, question, state, method.score_of if isinstance(method, Occlusion) else _as_it_is)
            witness = _studied(known, getattr(method, "baseline", "zero"))
            if torch.allclose(witness.shaped(witness.scores).to(result.score), result.score, rtol=1e-3, atol=1e-5):
                return answer_of(witness, result, question.words)
        with following(forward, question.target, Rules(), state) as found:
            witness = followed(found, found.picked(lambda run, start: None, is_safe=True), is_safe=True)
            return answer_of(witness, result, question.words)


def _as_it_is(output: Tensor) -> Tensor:
    return output


def _studied(known: Study, baseline: object) -> Witness:
    away = baselines(known, baseline)

    def scores_without(taken: Sequence[Tensor]) -> Tensor:
        def made(part: range) -> list[Tensor]:
            parts = zip(taken, away, known.ordered, strict=True)
            return [torch.where(own.view(1, *own.shape, *(1,) * (x.dim() - 2)), other, x) for own, other, x in parts]

        return known.scores_at(1, made, batch=1)[:, 0]

    return Witness(known.layouts, known.scores, known.selection.shaped, scores_without)
