"""The public function `relevance`: model, inputs, target and method in, a result out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from whence.engine.held import ModelParts
from whence.engine.refusal import first_line
from whence.errors import ConservationError, InputError, TargetError
from whence.methods.asking import answered
from whence.methods.forward import Forward, require_finite
from whence.methods.inputs import Given, read
from whence.methods.lengths import relevance_by_length
from whence.methods.lrp import LRP
from whence.methods.method import INSIDE, Method, Question
from whence.methods.predicting import require_outside_of_func
from whence.methods.registry import method_of
from whence.methods.target import Target
from whence.methods.weights import require_finite_weights
from whence.result import CONTRADICTED, Result

Check = bool | Literal["model"]


def relevance(
    model: nn.Module,
    inputs: Given,
    *,
    target: Target = None,
    method: Method | str | None = None,
    lengths: Sequence[int] | Tensor | None = None,
    embedding: str | None = None,
    at: str | None = None,
    memory: bool = False,
    by_step: bool = False,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    call: Callable[[Any, Any], object] | None = None,
    check: Check = True,
) -> Result:
    """Explain one score per sample of an unmodified model.

    `inputs`: a float tensor, a tuple or dictionary of them (relevance for each), a `PackedSequence`, or token ids. Other
    arguments of the model go into `args` and `kwargs`. If the model takes its inputs in another way, `call` says how:
    `call=lambda model, x: model(Batch(x, lengths))`, with x in the form of `inputs`. For token ids, relevance has the
    dimensions of their embedding in a last axis; `embedding` names the layer if the ids go into several.

    `target`: a class index or one per sample, `"predicted"`, `"all"` (a leading axis of classes), `(time step, class)` with
    `"all"` for either, `whence.contrast(a, b)` or `whence.contrast(a, "rest")`, or a callable from the model's output to one
    score per sample; without one, the model must give one score per sample.

    `lengths`: the number of steps of each sample in a padded batch, without padding. Every sample is then explained as if it
    were alone: the model is called once for each length, with the samples of that length, unpadded, and their rows of `args`
    and `kwargs`. It also gets their `lengths` if its forward has a parameter of that name.

    `by_step` sums relevance over the last axis of the inputs, the features: one number for every step, at less cost.

    `check`: relevance and absorbed amounts must add up to the score. If single precision is not enough for that, the model is
    explained again in double precision, and the result is in it; if that is not enough either, an error is raised. With
    `check=False`, the numbers are returned as they are, and the followed run is not compared with the model. With
    `check="model"`, the model is also asked itself, by two more forward passes: without the steps that are said to speak for
    the score, and without those said to speak against it (methods other than LRP take some more, to find the samples). If its
    answer contradicts the signs, `result.doubt` says so, and `LRP(strict=True)` refuses.

    `at` names a layer whose output is explained instead of the inputs. `memory` also returns how much relevance the states of
    recurrent layers carry from step to step.

        result = whence.relevance(model, inputs, target=3, method=whence.LRP(epsilon=1e-3))
        result.check().relevance
    """
    if not isinstance(args, (tuple, list)) or not isinstance(kwargs or {}, Mapping):
        raise InputError("args is a tuple of further arguments of the model, kwargs a dictionary of them")
    if call is not None and (not callable(call) or args or kwargs or lengths is not None):
        raise InputError("call is a function of the model and the inputs, and takes the place of args, kwargs and lengths")
    forward = Forward(required_module(model), read(inputs), args, kwargs or {}, embedding, call)
    is_checked, asks_model = check_of(check)
    question = Question(target, at=at, memory=memory, by_step=by_step, check=is_checked, asks_model=asks_model)
    return ask(forward, question, method_of(method), lengths=lengths)


def check_of(check: Check) -> tuple[bool, bool]:
    """Whether an answer must add up, and whether the model is asked about it."""
    if check not in (True, False, "model"):
        raise InputError(f'check is {check!r}; it is True, False, or "model", which also asks the model about the signs')
    return check is not False, check == "model"


def ask(forward: Forward, question: Question, method: Method, *, lengths: Sequence[int] | Tensor | None = None) -> Result:
    """Check model and inputs, then let the method answer the question; `relevance` and `explain` both call this."""
    require_outside_of_func()
    forward = unwrapped(forward)
    require_initialised(forward.parts)
    forward = forward.differentiable()
    if (question.at is not None or question.memory) and lengths is not None:
        raise InputError(INSIDE)
    require_finite_weights(forward.parts)
    try:
        result = _answered(forward, question, method, lengths)
    except (InputError, TargetError):
        require_finite_weights(forward.parts, is_thorough=True)  # weights that are not finite are reported first
        raise
    if not question.check or question.direction is not None or result.explained is None or result.is_balanced():
        return _required(result, method)
    if result.score.dtype == torch.float64:
        return _required(result.check(), method)
    return _required(_in_double_precision(forward, question, method, lengths), method)


def _required(result: Result, method: Method) -> Result:
    """The result; a strict method refuses one that its model contradicts."""
    is_doubted = result.answer is not None and not bool((result.answer.agreement >= CONTRADICTED).all())
    if is_doubted and isinstance(method, LRP) and method.strict:
        raise InputError(f"{result.doubt}; leave strict=True out to see the relevance")
    return result


def _answered(forward: Forward, question: Question, method: Method, lengths: Sequence[int] | Tensor | None) -> Result:
    if lengths is not None:
        return relevance_by_length(forward, question, method, lengths)
    if any(tensor.is_floating_point() for tensor in forward.inputs.tensors):
        require_finite(forward.inputs.tensors)
    return answered(forward, question, method)


def _in_double_precision(
    forward: Forward, question: Question, method: Method, lengths: Sequence[int] | Tensor | None
) -> Result:
    """The same answer in double precision, checked; if the model cannot run in it, the error of the single one."""
    try:
        doubled = forward.doubled()
        result = _answered(doubled, question, method, lengths)
    except Exception as error:  # a copy of the model cannot be made, or it insists on single precision
        reason = f"double precision was tried, but the model cannot run in it: {first_line(error)}"
        try:
            _answered(forward, question._replace(check=False), method, lengths).check()  # which tells where the gap opens
        except ConservationError as gap:
            raise ConservationError(f"{gap}; {reason}") from None
        raise
    return result.check()


def required_module(model: object) -> nn.Module:
    """A model that is a module; anything else is refused."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model is a {type(model).__name__}; it must be a torch.nn.Module")
    return model


def unwrapped(forward: Forward) -> Forward:
    """The same with the module whose calls can be followed: of a compiled one the original."""
    model = forward.model
    return forward if type(model).__name__ != "OptimizedModule" else replace(forward, model=cast(nn.Module, model._orig_mod))


def require_initialised(parts: ModelParts) -> None:
    """Refuse a model whose weights get their shape from the first input, before it has seen one."""
    for name, each in parts.parameters:
        if is_lazy(each):
            layer = name.rpartition(".")[0] or "the model"
            raise InputError(f"{layer!r} has not seen any input yet; run the model once")
