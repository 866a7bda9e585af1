"""Where relevance starts, which calls it passes on its way back, and what had to be decided there."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from whence.choice import Choice
from whence.engine.marks import Before, Contents, Mark, ModelCall, Node
from whence.engine.refusal import Blocked, blocked
from whence.engine.run import ModelRun
from whence.engine.writing import laid
from whence.trees import floats_of, mapped


class Origin(NamedTuple):
    """A tensor that relevance starts from, and masks (K, *shape) of what is explained in it, one for every target."""

    tensor: Tensor
    mark: Mark
    mask: Tensor

    def amounts(self) -> Tensor:
        """The relevance (K, *shape) to start with; what no mask picks is 0, also if it is infinite."""
        return torch.where(self.mask != 0, self.mask * self.tensor.detach(), 0.0)


class Start(NamedTuple):
    """Where relevance starts, and the functions at the end of the model that it starts before."""

    origins: Sequence[Origin]
    ends: Sequence[ModelCall] = ()

    @property
    def nodes(self) -> list[Node]:
        """What is known of the tensors that relevance starts from."""
        return [origin.mark.node for origin in self.origins]


def start_of(run: ModelRun, tensor: Tensor, mark: Mark, mask: Tensor) -> Start:
    """The scores that a mask (K, *shape) picks, as they are before a softmax, sigmoid or the like ends the model.

    Only the picked elements matter: of cat([μ, softplus(σ)]), μ starts where it is.
    """
    origins, ends = dict[int, Origin](), dict[ModelCall, None]()
    waiting = [Origin(tensor, mark, mask)]
    while waiting:
        each = waiting.pop()
        if isinstance(each.mark.before, Contents):
            waiting += _unpacked(each, each.mark.before)
        elif each.mark.before is None:
            known = origins.get(id(each.tensor))
            origins[id(each.tensor)] = each if known is None else each._replace(mask=known.mask + each.mask)
        elif each.mark.before.squashes:
            ends[each.mark.before.call] = None
            waiting.append(_followed(run, each.mark.before.args[0], each.mask))
        elif any(tensor._version != version for tensor, version in each.mark.before.versions):
            waiting.append(each._replace(mark=replace(each.mark, before=None)))  # written over since
        else:
            waiting += _moved_back(run, each.mark.before, each.mask)
    return Start(list(origins.values()), list(ends)) if ends else Start([Origin(tensor, mark, mask)])


def _followed(run: ModelRun, tensor: Tensor, mask: Tensor) -> Origin:
    mark = run.look(tensor)
    assert mark is not None
    return Origin(tensor, mark, mask)


def _unpacked(origin: Origin, contents: Contents) -> list[Origin]:
    """What masks of a buffer pick of the squashed scores that were written into it, the last write first, and of the rest."""
    found = list[Origin]()
    left, rest = ([laid(mask, origin.tensor) for mask in origin.mask] for _ in range(2))
    for write in reversed(contents.writes):
        parts = [write.read(each).clone() for each in left]
        is_squashed = write.mark is not None and write.mark.before is not None
        for mask, other, part in zip(left, rest, parts, strict=True):
            write.put(mask, torch.zeros_like(part))
            if is_squashed:
                write.put(other, write.read(other) - part)
        if is_squashed:
            mask = torch.stack([part.sum_to_size(write.content.shape) for part in parts])
            found.append(Origin(write.content, cast(Mark, write.mark), mask))
    plain = Origin(origin.tensor, replace(origin.mark, before=None), torch.stack(rest))
    return [each for each in (*found, plain) if bool(each.mask.any())]


def _moved_back(run: ModelRun, before: Before, mask: Tensor) -> list[Origin]:
    """What masks of a result pick of the inputs of a linear call: PyTorch's derivative of the call."""
    live = {id(each): each for each in floats_of((before.args, before.kwargs)) if (own := run.look(each)) and own.is_live}
    with torch.enable_grad():
        leaves = {key: each.detach().clone().requires_grad_() for key, each in live.items()}
        args, kwargs = mapped(lambda leaf: leaves.get(id(leaf), leaf), (before.args, dict(before.kwargs)))
        result = floats_of(before.call.function(*args, **kwargs))[before.place]
    rows = [torch.autograd.grad(result, list(leaves.values()), own, retain_graph=True, materialize_grads=True) for own in mask]
    found = [torch.stack(each) for each in zip(*rows, strict=True)]
    pairs = zip(live.values(), found, strict=True)
    return [_followed(run, each, own) for each, own in pairs if bool(own.any())]


def path_of(calls: Sequence[ModelCall], nodes: Iterable[Node]) -> list[ModelCall]:
    """The calls that relevance passes on its way back from some values, in order."""
    reached, passed = {node.call for node in nodes}, list[ModelCall]()
    for call in reversed(calls):
        if call in reached:
            passed.append(call)
            reached.update(node.call for node in call.sources)
    return passed[::-1]


def reaches(calls: Sequence[ModelCall], nodes: Sequence[Node], ends: Iterable[Node | None]) -> bool:
    """Whether relevance comes from some values to one of others."""
    known = {*nodes, *(node for call in path_of(calls, nodes) for node in call.sources)}
    return any(node in known for node in ends)


def require_rules(path: Sequence[ModelCall], *, is_strict: bool) -> None:
    """Refuse calls on the path of relevance that have no rule, and name them all; if `is_strict`, also where one chose."""
    refused: list[Blocked] = []
    for call in path:
        if call.refused is not None:
            refused.append(Blocked(call.function, call.layer, call.refused, bool(call.cut)))
        if is_strict and call.choice is not None:
            mark = "; mark the gate with whence.gate(tensor)" if call.rule.combines else ""
            why = f"strict=True makes no choice ({call.choice.gate}; {call.choice.why}){mark}"
            refused.append(Blocked(call.function, call.layer, why))
    if refused:
        raise blocked(list(dict.fromkeys(refused)))


def require_no_ends(ends: Sequence[ModelCall]) -> None:
    """Refuse to start before the functions that end a model."""
    if ends:
        reason = (
            "it ends the model, and strict=True does not start before it; let the model return the scores, or leave strict out"
        )
        raise blocked([Blocked(end.function, end.layer, reason) for end in ends])


def choices_of(path: Collection[ModelCall], ends: Sequence[ModelCall]) -> tuple[Choice, ...]:
    """What had to be decided in these calls, and before which functions at the end of the model relevance starts."""
    before = "it ends the model, so relevance starts from the scores before it"
    found = Counter(Choice(end.layer, end.name, "no gate", before) for end in ends)
    found.update(call.choice for call in path if call.choice is not None)
    through = "relevance goes through, because the score depends on it; a derivative stops there"
    found.update(Choice(call.layer, call.cut, "no gate", through) for call in path if call.cut)
    return tuple(choice._replace(times=times) for choice, times in found.items())
