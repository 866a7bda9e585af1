"""What a run knows of the tensors that a model computes with: which depend on what is explained, and which are constants.

A tensor that no seen call made is taken for a constant, and told as a doubt.
"""

from collections.abc import Sequence
from typing import Any, cast
from weakref import ref

import torch
from torch import Tensor, nn

from whence.engine import neurons, writing
from whence.engine.held import ModelParts
from whence.engine.ids import Ids
from whence.engine.layers import Layers
from whence.engine.marks import KEY, Args, Constant, Function, Mark, Node, put_mark
from whence.engine.observer import Observer
from whence.engine.refusal import name_of, place
from whence.engine.rule import NoRule
from whence.engine.samples import Samples
from whence.trees import floats_of, tensors_of


def _protocol(kind: type) -> object:
    """How a type of tensor takes part in torch functions."""
    found: object = getattr(kind, "__torch_function__", None)
    return getattr(found, "__func__", found)


PLAIN = (_protocol(Tensor), _protocol(nn.Parameter))  # leave torch functions as they are


FILLED = frozenset("zeros ones zeros_like ones_like new_zeros new_ones eye arange".split())  # makes finite numbers
ZEROS = frozenset("zeros zeros_like new_zeros".split())
KEEPS = frozenset(
    "float double half to type_as unsqueeze squeeze view reshape expand contiguous clone transpose "
    "add sub rsub mul neg __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __neg__ squeeze_ unsqueeze_".split()
)


class Sight:
    """The marks of tensors, and what is known of tensors without one."""

    def __init__(self, count: int, parts: ModelParts, layers: Layers, samples: Samples, observer: Observer | None) -> None:
        self.samples, self.observer, self.token = samples, observer, object()
        self.ids: Ids | None = None  # follows the token ids among the inputs, if there are any
        self.leaves: list[Tensor | None] = [None] * count
        self.starts: list[Node | None] = [None] * count  # the marks of the explained inputs
        self.doubts: list[str] = []  # what may have happened out of sight, and where
        self.foreign: list[Tensor] = []  # copies of the tensors that no seen call made, in the order in which they came
        self.former: Sequence[Tensor] | None = None  # what those were in another run, to be put in their place
        self.is_broken = False  # whether a call that was not seen wrote to what is explained
        self.leaked: list[tuple[Tensor, Tensor]] = []  # tensors whose memory was handed out, and copies of what they held
        self.has_buffers = False
        self._layers, self._held, self._parameters = layers, parts, parts.own
        self._marks: list[ref[Mark]] = []
        self._seen: dict[int, tuple[Tensor, int]] = {}  # memory of constants that seen calls wrote to, and its version
        self._function: Function = nn.Module.forward  # the last call; none yet
        self._accepted: dict[int, Tensor] = {}
        self._given: list[Tensor] = []  # the explained inputs on the graph

    def start(self, number: int, vectors: Tensor) -> Tensor:
        """Put an explained input, or the vectors that were looked up for its ids, on the graph.

        Inputs become part of the graph, so nobody else may have them; of vectors, every look-up gets a copy. The leaf holds
        numbers only for an observer.
        """
        with torch.inference_mode(False), torch.enable_grad():
            leaf = self.leaves[number]
            if leaf is None:
                leaf = vectors.new_zeros(()).expand(vectors.shape) if self.observer is None else vectors.detach().clone()
                self.leaves[number] = leaf.requires_grad_()
            own: Tensor = neurons.Passed.apply(leaf, [vectors if self.ids is None else vectors.detach().clone()])
        start = self.starts[number]
        if start is None:
            known = None if self.ids is None else self.ids.owners[number]
            self.starts[number] = start = Node(owner=self.samples.start(number, known, vectors.shape))
        self.attach(own, Mark(self.token, start, own._version))
        self._given.append(own)
        return own

    def attach(self, tensor: Tensor, mark: Mark) -> Mark:
        """Put a mark on a tensor, and remember to clear it: it may come to hold tensors that lead back to it."""
        put_mark(tensor, mark)
        return self.remember(mark)

    def remember(self, mark: Mark) -> Mark:
        """Clear a mark at the end, because it comes to hold tensors that lead back to it."""
        self._marks.append(ref(mark))
        return mark

    def finish(self, mark: Mark, done: Tensor) -> Tensor:
        """Note the finished neuron that an open sum is."""
        self.remember(mark).done = done
        return done

    def accept(self, arguments: object) -> None:
        """Take tensors that the user gave for constants."""
        self._accepted.update((id(tensor), tensor) for tensor in floats_of(arguments))

    def look(self, tensor: Tensor) -> Mark | None:
        """The mark of a tensor; None for a constant."""
        known = tensor.__dict__.get(KEY)
        if known is not None and known.run is self.token:
            if type(known) is Mark:
                return known if known.version == tensor._version else self._changed(tensor, known)
            if known.version != version_of(tensor):
                return self._rewritten(tensor, known)
            return None if not self.has_buffers or tensor._base is None else self._part_of_buffer(tensor)
        return None if id(tensor) in self._parameters else self._unknown(tensor)

    def _rewritten(self, tensor: Tensor, known: Constant) -> Mark | None:
        """A constant that was written to since it was marked: by a call that was seen, or not."""
        part = None if tensor._base is None else self._part_of_buffer(tensor)
        if part is not None:
            return part
        base = tensor if tensor._base is None else tensor._base
        if self._seen.get(id(base), (base, -1))[1] != version_of(tensor):
            return self._strange(tensor, "reads a constant that was changed by a call that was not seen")
        known.version = version_of(tensor)
        return None

    def note_constant(self, tensor: Tensor) -> None:
        """Take a tensor for a constant as it is after a write that was seen."""
        base = tensor if tensor._base is None else tensor._base
        self._seen[id(base)] = base, version_of(tensor)
        if KEY in tensor.__dict__:  # what an unseen call made is still to be looked at
            put_mark(tensor, Constant(self.token, version_of(tensor)))

    def _changed(self, tensor: Tensor, known: Mark) -> Mark | None:
        """The mark of a tensor that was written to since it was marked."""
        part = None if tensor._base is None else self._part_of_buffer(tensor)
        if part is not None:
            return part
        base = tensor._base
        if base is not None and type(base.__dict__.get(KEY)) is Constant:
            known = Mark(self.token, Node(is_live=False), 0)
        known.version = tensor._version
        if known.is_live:
            self.doubts.append("a followed tensor was changed by a call that was not seen")
            self.is_broken = True
            return known
        put_mark(tensor, Constant(self.token, tensor._version))
        return None  # a constant is read again

    def _part_of_buffer(self, tensor: Tensor) -> Mark | None:
        """The mark of a view of a tensor that was written to."""
        base = cast(Tensor, tensor._base)
        whole = base.__dict__.get(KEY)
        if type(whole) is not Mark or whole.run is not self.token or not whole.is_buffer:
            return None
        return self.attach(tensor, writing.part_of(cast(Any, self), tensor, base, whole))

    def _unknown(self, tensor: Tensor) -> Mark | None:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return None
        if type(tensor) is not Tensor and _protocol(type(tensor)) not in PLAIN:
            raise NoRule(f"a {type(tensor).__name__} changes what torch functions do")
        if self.has_buffers and tensor._base is not None and (part := self._part_of_buffer(tensor)) is not None:
            return part
        if id(tensor) in self._parameters or id(tensor) in self._accepted or self._held.holds(tensor):
            return None
        for own in self._given:
            if is_alias(tensor, own):
                mark = self.look(own)  # another name for an input, as `Variable(x)` makes it
                if mark is not None:
                    with torch.enable_grad():
                        self.remember(mark).alias = own.view_as(own)
                    put_mark(tensor, mark)
                return mark
        if tensor.is_nested:
            raise NoRule("it works on nested tensors")
        return self._strange(tensor, "reads a tensor that no followed call made")

    def _strange(self, tensor: Tensor, why: str) -> None:
        """Take a tensor for a constant, and note that it may be none; in a run that tries, it gets its former numbers."""
        self._doubt(why)
        place = len(self.foreign)
        if self.former is not None and place < len(self.former) and not is_same(self.former[place], tensor):
            with torch.no_grad():
                tensor.copy_(self.former[place])
        self.foreign.append(tensor.detach().clone())
        put_mark(tensor, Constant(self.token, version_of(tensor)))

    def _doubt(self, what: str) -> None:
        doubt = f"{name_of(self._function)} ({place(self.layer)}) {what}"
        if doubt not in self.doubts:
            self.doubts.append(doubt)

    def is_in_doubt(self) -> bool:
        """Whether something may have happened out of sight."""
        if any(not torch.equal(tensor.detach(), copy) for tensor, copy in self.leaked):
            self.doubts.append("a tensor was changed through its memory by a call that was not seen")
            self.is_broken = True
        return bool(self.doubts)

    @property
    def layer(self) -> str:
        """The name of the running layer."""
        return self._layers.running[-1]

    def is_trained(self, tensor: object) -> bool:
        """Whether a tensor is a parameter of the model or a view of one."""
        return self._held.is_trained(tensor)

    def is_parameter(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter of the model itself, in ordinary memory."""
        return id(tensor) in self._parameters and tensor.layout == torch.strided and not tensor.is_inference()

    def is_finite(self, constant: Tensor) -> bool:
        """Whether a constant is known to hold no infinities."""
        known = constant.__dict__.get(KEY)
        return (type(known) is Constant and known.run is self.token and known.is_finite) or self.is_trained(constant)

    def is_zero(self, constant: Tensor) -> bool:
        """Whether a constant is known to hold zeros alone."""
        known = constant.__dict__.get(KEY)
        return type(known) is Constant and known.run is self.token and known.is_zero and known.version == version_of(constant)

    def is_given(self, tensor: Tensor) -> bool:
        """Whether a constant comes from outside of the model, or was made by a seen call of other things than weights."""
        known = tensor.__dict__.get(KEY)
        is_made = type(known) is Constant and known.run is self.token and not known.is_held
        return is_made or id(tensor) in self._accepted

    def is_held(self, tensor: object) -> bool:
        """Whether a tensor is a parameter or a buffer, or computed from these alone."""
        if not isinstance(tensor, Tensor):
            return False
        known = tensor.__dict__.get(KEY)
        if type(known) is Constant and known.run is self.token:
            return known.is_held
        return self._held.holds(tensor)

    def plain(self, result: Any, made_of: Sequence[Tensor] = (), args: Args = ()) -> Any:
        """Mark a result as a constant."""
        floats = [tensor for tensor in made_of if tensor.is_floating_point() or tensor.is_complex()]
        name = self._function.__name__
        is_held = bool(floats) and all(map(self.is_held, floats))
        is_finite = name in FILLED or (
            name in KEEPS
            and all(map(self.is_finite, floats))
            and all([arg - arg == 0 for arg in args if isinstance(arg, (int, float))])
        )
        for tensor in (result,) if isinstance(result, Tensor) else tensors_of(result):
            if id(tensor) not in self._parameters and type(tensor.__dict__.get(KEY)) is not Mark:
                put_mark(tensor, Constant(self.token, version_of(tensor), is_held, is_finite, name in ZEROS))
        return result

    def _is_buffer(self, tensor: Tensor) -> bool:
        base = tensor if tensor._base is None else tensor._base
        known = base.__dict__.get(KEY)
        return type(known) is Mark and known.run is self.token and known.is_buffer

    def set_buffers(self) -> None:
        """From now on, views may be parts of tensors that were written to."""
        self.has_buffers = True


def version_of(tensor: Tensor) -> int:
    """How often a tensor was written to."""
    return 0 if tensor.is_inference() else tensor._version


def is_alias(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same view of the same memory."""
    return (
        one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.dtype == other.dtype
    )


def is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers; what is not a number counts as the same."""
    return (
        one.shape == other.shape and one.dtype == other.dtype and bool(((one == other) | (one != one) & (other != other)).all())
    )
