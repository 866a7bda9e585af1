"""What normalises over classes, in any spelling: softmax, log_softmax, logsumexp, exp(z) / Σ exp(z), z − log Σ exp(z).

As a model's last step, relevance starts before it, at the logits. As the weight of a source, it is a gate. Where anything else
follows, it is explained against its value at equal scores, by the secants of the log-partition:

    logsumexp(z) − logsumexp(z⁰) = Σ_k w_k (z_k − z⁰_k)       log_softmax(z) = z − logsumexp(z)       softmax = exp log_softmax
"""

from typing import Any, cast

import torch
from torch import Tensor, overrides

from whence.engine.activations import AT_REST, WHOLE, Activation, Joint, passed
from whence.engine.marks import KEY, Args, Before, Known, Kwargs, Mark, ModelCall, Node, OpenSum
from whence.engine.resting import LogPartition, Secant
from whence.engine.rule import NoRule, OverwrittenError, Rule
from whence.engine.run import ModelRun
from whence.engine.sums import axes_of, is_close, reduced_owner, unshifted
from whence.equations import secant

MASKED = 1e4
LogSumOf = tuple[Tensor, OpenSum]


class Normaliser(Joint):
    """softmax, softmin or log_softmax."""

    def _put(
        self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, mark: Mark, y: Tensor, *, is_late: bool, **known: Any
    ) -> Tensor:
        x = args[0]
        y = super()._put(run, call, args, kwargs, mark, y, is_late=is_late, **known)
        if mark.is_live and not x.is_complex():
            axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
            axes = ((0 if x.dim() in (0, 1, 3) else 1) if axis is None else axis,)  # as PyTorch's own default
            given, scale = Known(x, mark, x._version), -1.0 if call.name == "softmin" else 1.0
            stand_apart(run, call, y, given, axes, is_log=call.name == "log_softmax", scale=scale)
        return y


class Logarithm(Activation):
    """log a. Of Σ exp(z), it is logsumexp(z); of a softmax, log_softmax."""

    def _put(
        self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs, mark: Mark, y: Tensor, *, is_late: bool, **known: Any
    ) -> Tensor:
        if mark.partition is None or not mark.is_live:
            y = super()._put(run, call, args, kwargs, mark, y, is_late=is_late, **known)
            if isinstance(mark.before, Before) and mark.before.squashes and "softmax" in mark.before.call.name:
                cast(Mark, y.__dict__[KEY]).before = Before(call, args, kwargs, 0, squashes=True)
            return y
        y = passed(run, call, args[0], mark, y, is_late=is_late, **known)
        exponent, axes = mark.partition

        def stand() -> LogSumOf:
            known, m = unshifted(exponent, axes)
            z, own = log_sum(run, call, known, axes)
            if m is not None:
                less, other = run.rested(m.tensor, m.mark)
                wire = None if own.wire is None or other.wire is None else own.wire + other.wire
                z, own = z - less, OpenSum(call, wire, None, rest=cast(Tensor, own.rest) - cast(Tensor, other.rest))
            return (z, own) if z.dim() == y.dim() else (z.squeeze(axes), own.each(lambda part: part.squeeze(axes)))

        run.put_off(y, [exponent.tensor], stand)
        cast(Mark, y.__dict__[KEY]).log_sums = axes
        return y


class LogSum(Rule):
    """log Σ exp(z) over axes. Of logarithms of factors, it is their sum, and its terms get what PyTorch's derivative gives."""

    words = "sum, by its logarithms"

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        x, mark = args[0], cast(Mark, run.look(args[0]))
        if x.is_complex():
            raise NoRule("it is not linear, and its input is complex")
        call.sources = (mark.node,) if mark.is_live else ()
        if run.rules.product == "all" and mark.is_live and mark.gate is None and mark.log is None:
            call.decide("no gate", AT_REST if call.name == "logsumexp" else WHOLE)
        y = call.function(run.finished(x, mark) if mark.is_live else x.detach(), *args[1:], **kwargs)
        owner = reduced_owner(run, call, x, mark, y, args, kwargs)
        run.put(y, call, is_live=mark.is_live, owner=owner, gate=mark.gate, log=mark.log, is_infinite=True)
        if mark.is_live and mark.log is None and call.name == "logsumexp":
            self._put_off(run, call, y, Known(x, mark, x._version), args, kwargs)
        return y

    def _put_off(self, run: ModelRun, call: ModelCall, y: Tensor, known: Known, args: Args, kwargs: Kwargs) -> None:
        axes = axes_of(known.tensor, kwargs.get("dim", args[1] if len(args) > 1 else None))

        def stand() -> LogSumOf:
            z, own = log_sum(run, call, known, axes)
            return (z, own) if z.dim() == y.dim() else (z.squeeze(axes), own.each(lambda part: part.squeeze(axes)))

        run.put_off(y, [known.tensor], stand)
        cast(Mark, y.__dict__[KEY]).log_sums = axes


def log_sum(run: ModelRun, call: ModelCall, known: Known, axes: tuple[int, ...], *, is_left: bool = False) -> LogSumOf:
    """log Σ exp(z) over axes that stay, or z less that, as a sum with its value at rest."""
    if not known.is_current:
        raise OverwrittenError
    z, own = run.rested(known.tensor, known.mark)
    numbers = z.detach()  # what a mask puts far below the others is not there at rest, either
    is_masked = numbers.isinf() | (numbers < numbers.amax(axes, keepdim=True) - MASKED)
    rest = torch.where(is_masked, numbers, cast(Tensor, own.rest))
    y = LogPartition.apply(z, rest, axes, is_left, Node(call, owner=known.mark.owner), run)
    total = rest.logsumexp(axes, keepdim=True)
    wire = None if own.wire is None else own.wire.expand(z.shape).sum(axes, keepdim=True).expand(y.shape)
    return y, OpenSum(call, wire, None, rest=torch.where(rest.isinf(), rest, rest - total) if is_left else total)


def stand_apart(
    run: ModelRun, call: ModelCall, y: Tensor, known: Known, axes: tuple[int, ...], *, is_log: bool, scale: float = 1.0
) -> None:
    """Note how softmax(z) or log_softmax(z), which is put as an activation of z, stands as a sum with its value at rest."""
    owner = cast(Mark, y.__dict__[KEY]).owner

    def stand() -> LogSumOf:
        given = known
        if scale != 1:
            z, own = run.rested(known.tensor, known.mark)
            z = z * scale
            own = OpenSum(call, own.wire, own.count, rest=cast(Tensor, own.rest) * scale)
            given = Known(z, Mark(run.token, Node(call, owner=known.mark.owner), z._version, own), z._version)
        z, own = log_sum(run, call, given, axes, is_left=True)
        if is_log:
            return z, own
        numbers, rest = z.detach(), cast(Tensor, own.rest)
        p = Secant.apply(z, [numbers.exp()], lambda: secant(torch.exp, numbers, rest), Node(call, owner=owner), run)
        return p, OpenSum(call, own.wire, None, rest=rest.exp())

    run.put_off(y, [known.tensor], stand)


def softmax_by_hand(y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """y = a / b, where a is an exponential and b a sum of exponentials. It is returned unchanged."""
    if overrides.has_torch_function((y, a, b)):
        return overrides.handle_torch_function(softmax_by_hand, (y, a, b), y, a, b)
    return y


def is_by_hand(a: object, b: Tensor) -> bool:
    """Whether a / b may be a softmax: an exponential over a sum of exponentials."""
    one, other = a.__dict__.get(KEY) if isinstance(a, Tensor) else None, b.__dict__.get(KEY)
    return type(one) is Mark and type(other) is Mark and one.exponent is not None and other.partition is not None


class ByHand(Rule):
    """exp(z) / Σ exp(z), recognised by its numbers."""

    words = "softmax by hand"
    squashes = True

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        y, (own, first, other) = args[0], (cast(Mark, run.look(each)) for each in args)
        call.sources = (own.node,)
        found = run.finished(y, own).view_as(y) if own.late is None else y.clone()
        run.put(found, call, gate=own.gate, owner=own.owner, is_infinite=own.is_infinite, log=own.log)
        mark = run.remember(cast(Mark, found.__dict__[KEY]))
        mark.late = own.late
        axes = cast(Any, other.partition)[1]
        known, _ = unshifted(cast(Known, first.exponent), axes)
        if len(axes) == 1 and known.is_current and is_close(y, known.tensor.detach().softmax(axes[0])):
            stand_apart(run, call, found, known, axes, is_log=False)
            mark.before = Before(call, (known.tensor,), {}, 0, squashes=True)
        return found
