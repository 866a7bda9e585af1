"""Every line of the table of torch functions, run: the model's own scores, and relevance that adds up to them.

An elementwise activation needs no example: without one, a function is called on one tensor.
"""

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import whence
from whence import LRP, relevance
from whence.engine.activations import Activation
from whence.engine.operation import Operation, Table
from whence.engine.table import TABLE
from whence.models.two_classes import two_scores

Example = Callable[[Tensor], Tensor]
STEPS, SIZE = 5, 4


def weight(*shape: int) -> Example:
    """A constant of that shape, in the precision and on the device of the tensor it is called with."""
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    return lambda x: drawn.to(x)


W, WIDE, V = weight(SIZE, SIZE), weight(STEPS, STEPS), weight(SIZE)
ORDER = torch.tensor([3, 0, 4, 1, 2])
PICKED = torch.tensor([0, 2, 2])
MASK = torch.tensor([True, False, True, True])


def places(x: Tensor) -> Tensor:
    return ORDER[:, None].expand(x.shape)


def packed_and_back(x: Tensor) -> Tensor:
    lengths = torch.arange(len(x), 0, -1) + STEPS - len(x)
    return pad_packed_sequence(pack_padded_sequence(x, lengths, batch_first=True), batch_first=True, total_length=STEPS)[0]


def changed(change: Callable[[Tensor, Tensor], Any]) -> Example:
    """Something written into a copy of x, beside x itself."""

    def example(x: Tensor) -> Tensor:
        copy = x.clone()
        change(copy, x)
        return copy + x.flip(1)

    return example


def layer(make: Callable[[], nn.Module], read: Callable[[nn.Module, Tensor], Tensor]) -> Example:
    """A layer with the same weights on every call."""

    def example(x: Tensor) -> Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return read(make().to(x), x)

    return example


def of_rows(call: Callable[[Tensor], Tensor]) -> Example:
    """A call on the first steps (B, 4) of x."""
    return lambda x: call(x[:, 0])


def pooled(name: str, dimensions: int) -> Example:
    """Pooling over (B, …, 5, 4), with as many axes of size 1 as it needs."""
    return lambda x: getattr(F, name)(
        x.reshape(len(x), 1, *(1,) * (dimensions - 2), *x.shape[1:])[..., :4, :], 2 if dimensions < 3 else (1, 2, 2)
    )


def on_gate(name: str, *args: Any) -> Example:
    """A function of a gate, which is a gate too."""
    return lambda x: getattr(torch, name)(x.sigmoid(), *args) * x


EXAMPLES: dict[str, Example] = {
    # weighted connections
    "linear": lambda x: F.linear(x, W(x), V(x)),
    "matmul": lambda x: x @ W(x),
    "mm": of_rows(lambda x: x.mm(W(x))),
    "bmm": lambda x: x.bmm(W(x).expand(len(x), SIZE, SIZE)),
    "mv": of_rows(lambda x: x.mv(V(x))[:, None]),
    "dot": of_rows(lambda x: torch.stack([torch.dot(row, V(x)) for row in x])[:, None]),
    "rmatmul": lambda x: Tensor.__rmatmul__(x, WIDE(x)),  # pyright: ignore[reportAttributeAccessIssue]
    "einsum": lambda x: torch.einsum("bti,io->bto", x, W(x)),
    "conv1d": lambda x: F.conv1d(x.mT, weight(3, SIZE, 2)(x), weight(3)(x)),
    "conv2d": lambda x: F.conv2d(x[:, None], weight(2, 1, 2, 2)(x)),
    "conv3d": lambda x: F.conv3d(x[:, None, None], weight(2, 1, 1, 2, 2)(x)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x.mT, weight(SIZE, 3, 2)(x)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x[:, None], weight(1, 2, 2, 2)(x)),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x[:, None, None], weight(1, 2, 1, 2, 2)(x)),
    "outer": of_rows(lambda x: torch.stack([torch.outer(row, row.flip(0)) for row in x])),
    "ger": of_rows(lambda x: torch.stack([torch.ger(row, V(x)) for row in x])),
    "tensordot": lambda x: cast(Any, torch.tensordot)(x, W(x), dims=([2], [0])),
    "bilinear": lambda x: F.bilinear(x, x.flip(1), weight(3, SIZE, SIZE)(x), weight(3)(x)),
    "sparse_mm": of_rows(lambda x: torch.sparse.mm(W(x).to_sparse(), x.T).T),
    "instance_norm": lambda x: F.instance_norm(x.mT),
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "linalg_norm": lambda x: x / torch.linalg.norm(x, dim=-1, keepdim=True),
    "linalg_vector_norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "var": lambda x: x.var(-1),
    "std": lambda x: torch.std(x, dim=-1, keepdim=True),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(1), -1),
    "layer_norm": lambda x: F.layer_norm(x, (SIZE,), V(x), V(x)),
    "batch_norm": lambda x: F.batch_norm(x.mT, V(x), V(x).abs() + 1),
    "addmm": of_rows(lambda x: torch.addmm(V(x), x, W(x), beta=0.5)),
    "addmv": of_rows(lambda x: torch.addmv(x[:, 0], x, V(x), alpha=2)[:, None]),
    "baddbmm": lambda x: torch.baddbmm(x, x, W(x).expand(len(x), SIZE, SIZE)),
    "group_norm": lambda x: F.group_norm(x.mT, 2),
    "rms_norm": lambda x: F.rms_norm(x, (SIZE,), V(x)),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "multi_head_attention_forward": layer(lambda: nn.MultiheadAttention(4, 2, batch_first=True), lambda m, x: m(x, x, x)[0]),
    # sums
    "add": lambda x: torch.add(x, x.flip(1), alpha=2),
    "sub": lambda x: x - 2 * x.flip(1),
    "subtract": lambda x: torch.subtract(x, x.flip(1), alpha=2),
    "rsub": lambda x: torch.rsub(x, x.flip(1), alpha=2),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "cumsum": lambda x: x.cumsum(1),
    "avg_pool1d": lambda x: F.avg_pool1d(x.mT, 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.mT, 2),
    # linear maps by their derivative
    "avg_pool2d": pooled("avg_pool2d", 2),
    "avg_pool3d": pooled("avg_pool3d", 3),
    "adaptive_avg_pool2d": pooled("adaptive_avg_pool2d", 2),
    "adaptive_avg_pool3d": pooled("adaptive_avg_pool3d", 3),
    "interpolate": lambda x: F.interpolate(x.mT, 7, mode="linear"),
    "scatter_add": lambda x: torch.ones_like(x[:, :3]).scatter_add(1, (places(x) % 3), x),
    "index_add": lambda x: x[:, :3].index_add(1, ORDER % 3, x.flip(1)),
    "fold": lambda x: F.fold(x.mT, (3, 3), (2, 2), stride=(1, 2)) if x.shape[1] == 2 else F.fold(x.mT[..., :4], (3, 3), (2, 2)),
    "trace": lambda x: torch.stack([torch.trace(each) for each in x])[:, None],
    **{
        f"fft_{name}": lambda x, name=name: getattr(torch.fft, name)(x, dim=1).real for name in ("fft", "ifft", "rfft", "ihfft")
    },
    **{f"fft_{name}": lambda x, name=name: getattr(torch.fft, name)(x + 0j, dim=1).real for name in ("irfft", "hfft")},
    **{f"fft_{name}": lambda x, name=name: getattr(torch.fft, name)(x, dim=(1, 2)).imag for name in ("fft2", "ifft2", "rfft2")},
    **{f"fft_{name}": lambda x, name=name: getattr(torch.fft, name)(x, dim=(1, 2)).imag for name in ("fftn", "ifftn", "rfftn")},
    **{f"fft_{name}": lambda x, name=name: getattr(torch.fft, name)(x + 1j * x, dim=(1, 2)) for name in ("irfft2", "irfftn")},
    "real": lambda x: ((x + 0j) * torch.complex(V(x), V(x))).real,
    "imag": lambda x: (x * (1 + 2j)).imag,
    **{
        name: lambda x, name=name: getattr(torch, name)(x * (1 + 2j)).imag for name in ("conj", "resolve_conj", "conj_physical")
    },
    "complex": lambda x: (torch.complex(x, x.flip(1)) * (1 - 2j)).real,
    "view_as_real": lambda x: torch.view_as_real(x * (1 + 2j)),
    "view_as_complex": lambda x: (torch.view_as_complex(x.unflatten(-1, (2, 2)).contiguous()) * (1 - 2j)).real,
    "cfloat": lambda x: (cast(Any, x).cfloat() * 2j).imag,
    "cdouble": lambda x: (cast(Any, x).cdouble() * 2j).imag,
    # products
    "mul": lambda x: x.sigmoid() * x,
    "multiply": lambda x: torch.multiply(x.sigmoid(), x),
    "div": lambda x: x / 2,
    "divide": lambda x: torch.divide(x, 2),
    "true_divide": lambda x: torch.true_divide(x, 2),
    "__rdiv__": lambda x: (1.0 / x.sigmoid()) * x,
    "square": on_gate("square"),
    "addcmul": lambda x: torch.addcmul(x, x.sigmoid(), x.flip(1), value=2),
    "lerp": lambda x: torch.lerp(x, x.flip(1), x.sigmoid()),
    "glu": F.glu,
    "prod": lambda x: x.sigmoid().prod(1, keepdim=True) * x,
    "cumprod": lambda x: x.sigmoid().cumprod(1) * x,
    "logsumexp": lambda x: x.logsumexp(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "logaddexp": lambda x: torch.logaddexp(x, x.flip(1)),
    "gate": lambda x: whence.gate(x.exp()) * x,
    "softmax_by_hand": lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
    "two_scores": lambda x: two_scores(x[..., :1], is_probability=False),
    # activations that need more than a tensor, or that relevance passes only as gates
    "prelu": lambda x: F.prelu(x, weight(1)(x)),
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clip": lambda x: x.clip(-0.5, 0.5),
    "clamp_min": lambda x: x.clamp_min(-0.5),
    "clamp_max": lambda x: x.clamp_max(0.5),
    "log_sigmoid": F.logsigmoid,
    "softmax": lambda x: x.softmax(-1) * x,
    "softmin": lambda x: F.softmin(x, -1) * x,
    "log_softmax": lambda x: x.log_softmax(-1).sigmoid() * x,
    "exp": lambda x: torch.exp(-2 * x.sigmoid()) * x,
    **{name: on_gate(name) for name in ("log", "sqrt", "rsqrt", "reciprocal", "abs")},
    "pow": on_gate("pow", 2),
    "log1p": lambda x: x.sigmoid().log1p(),
    **{name: lambda x, name=name: getattr(torch, name)(x.sigmoid() + 1) for name in ("log2", "log10")},
    "logit": lambda x: x.sigmoid().logit(),
    # recurrent layers and cells
    "lstm": layer(lambda: nn.LSTM(4, 3, batch_first=True), lambda m, x: m(x)[0]),
    "gru": layer(lambda: nn.GRU(4, 3, batch_first=True), lambda m, x: m(x)[0]),
    "rnn_tanh": layer(lambda: nn.RNN(4, 3, batch_first=True), lambda m, x: m(x)[0]),
    "rnn_relu": layer(lambda: nn.RNN(4, 3, batch_first=True, nonlinearity="relu"), lambda m, x: m(x)[0]),
    "lstm_cell": layer(lambda: nn.LSTMCell(4, 3), lambda m, x: m(x[:, 0])[0]),
    "gru_cell": layer(lambda: nn.GRUCell(4, 3), lambda m, x: m(x[:, 0])),
    "rnn_tanh_cell": layer(lambda: nn.RNNCell(4, 3), lambda m, x: m(x[:, 0])),
    "rnn_relu_cell": layer(lambda: nn.RNNCell(4, 3, nonlinearity="relu"), lambda m, x: m(x[:, 0])),
    # moves
    **{
        name: lambda x, name=name: getattr(torch, name)([x, x.flip(1)], 1) for name in ("cat", "concat", "concatenate", "stack")
    },
    **{name: lambda x, name=name: getattr(torch, name)([x, x.flip(1)]) for name in ("hstack", "dstack", "column_stack")},
    **{
        name: lambda x, name=name: getattr(torch, name)([x, x.flip(1)]).unflatten(0, (2, -1)).transpose(0, 1)
        for name in ("vstack", "row_stack")
    },
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.mT[..., None], 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x[:, None, :4], 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x.mT[..., None], 2),
    "pad_sequence": lambda x: nn.utils.rnn.pad_sequence([*x], batch_first=True, padding_value=0.5),
    "diag": lambda x: torch.stack([torch.diag(row) for row in x[:, 0]]),
    "diag_embed": lambda x: torch.diag_embed(x),
    "block_diag": lambda x: torch.stack([torch.block_diag(each, each) for each in x]),
    "getitem": lambda x: x[:, 1:, [0, 2]],
    "index_select": lambda x: x.index_select(1, PICKED),
    "pack_padded_sequence": packed_and_back,
    "pad_packed_sequence": packed_and_back,
    **{name: lambda x, name=name: getattr(torch, name)(x, 1, 2) for name in ("transpose", "swapaxes", "swapdims", "movedim")},
    "moveaxis": lambda x: torch.moveaxis(x, 1, 2),
    "permute": lambda x: x.permute(0, 2, 1),
    "reshape": lambda x: x.reshape(len(x), SIZE, STEPS),
    "view": lambda x: x.view(len(x), SIZE, STEPS),
    "flatten": lambda x: x.flatten(1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "view_as": lambda x: x.view_as(x.mT.contiguous()),
    "reshape_as": lambda x: x.reshape_as(x.mT),
    "expand_as": lambda x: x[:, :1].expand_as(x),
    "data": lambda x: x.data,
    "__deepcopy__": lambda x: copy.deepcopy(x.detach()),
    "split": lambda x: torch.cat(x.split(2, 1)[::-1], 1),
    "split_with_sizes": lambda x: torch.cat(x.split_with_sizes([2, 3], 1)[::-1], 1),
    "tensor_split": lambda x: torch.cat(x.tensor_split(2, 1)[::-1], 1),
    "chunk": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "unbind": lambda x: torch.stack(x.unbind(1)[::-1], 1),
    "select": lambda x: x.select(1, 2),
    "narrow": lambda x: x.narrow(1, 1, 3),
    "gather": lambda x: x.gather(1, places(x)),
    "take": lambda x: x.take(torch.arange(x.numel()).view(x.shape).flip(1)),
    "take_along_dim": lambda x: x.take_along_dim(places(x), 1),
    "masked_select": lambda x: x.masked_select(MASK).view(len(x), -1),
    "diagonal": lambda x: x.diagonal(dim1=1, dim2=2),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(2, 1),
    "rot90": lambda x: x.rot90(1, (1, 2)),
    "t": of_rows(lambda x: x.t().cumsum(0).t()),
    "T": of_rows(lambda x: x.T.cumsum(0).T),
    "H": of_rows(lambda x: x.H.cumsum(0).H),
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mH,
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "ravel": lambda x: x.ravel().view(len(x), -1),
    "expand": lambda x: x[:, :1].expand(-1, 3, -1),
    "broadcast_to": lambda x: x[:, :1].broadcast_to(len(x), 3, SIZE),
    "broadcast_tensors": lambda x: torch.cat(torch.broadcast_tensors(x, x[:, :1]), 1),
    "repeat": lambda x: x.repeat(1, 2, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "tile": lambda x: x.tile(1, 2, 1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "where": lambda x: torch.where(MASK, x, 0.5),
    "masked_fill": lambda x: x.masked_fill(MASK, 0.5),
    "pad": lambda x: F.pad(x, (1, 1), value=0.5),
    "constant_pad_nd": lambda x: torch.constant_pad_nd(x, (1, 1), 0.5),
    "index_fill": lambda x: x.index_fill(1, PICKED, 0.5),
    "setitem": changed(lambda y, x: y.__setitem__((slice(None), 0), 0.5)),
    "copy": changed(lambda y, x: y.copy_(x.flip(1))),
    "zero": changed(lambda y, x: y.zero_()),
    "fill": changed(lambda y, x: y.fill_(0.5)),
    "index_copy": lambda x: torch.zeros_like(x).index_copy(1, ORDER, x),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, places(x), x),
    "index_put": lambda x: torch.zeros_like(x).index_put((torch.arange(len(x))[:, None], ORDER), x),
    "reversed": lambda x: cast(Tensor, reversed(x.transpose(0, 1))).transpose(0, 1),
    "dropout1d": lambda x: F.dropout1d(x, training=False),
    "dropout2d": lambda x: F.dropout2d(x[:, None], training=False),
    "dropout3d": lambda x: F.dropout3d(x[:, None, None], training=False),
    **{
        name: lambda x, name=name: getattr(F, name)(x, 0.5, False)
        for name in ("dropout", "alpha_dropout", "feature_alpha_dropout")
    },
    "feature_dropout": lambda x: torch.feature_dropout(x, 0.5, False),
    # casts
    "to": lambda x: x.to(torch.float64).to(x.dtype),
    "type": lambda x: x.type(torch.float64).to(x.dtype),
    "type_as": lambda x: x.double().type_as(x),
    **{name: lambda x, name=name: getattr(x, name)().to(x.dtype) for name in ("double", "float", "half", "bfloat16", "cpu")},
    "cuda": lambda x: x.cuda().cpu(),
    # picks
    **{name: lambda x, name=name: getattr(x, name)(1).values for name in ("max", "min", "sort", "median", "cummax", "cummin")},
    **{name: lambda x, name=name: getattr(x, name)(1) for name in ("amax", "amin")},
    **{name: lambda x, name=name: getattr(torch, name)(x, x.flip(1)) for name in ("maximum", "minimum", "fmax", "fmin")},
    **{name: lambda x, name=name: getattr(x, name)(2, 1).values for name in ("topk", "kthvalue")},
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "max_pool2d": pooled("max_pool2d", 2),
    "max_pool3d": pooled("max_pool3d", 3),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x, 2),
    "adaptive_max_pool2d": pooled("adaptive_max_pool2d", 2),
    # calls that do not read the numbers
    **{name: lambda x, name=name: x + getattr(torch, name)(x) for name in ("zeros_like", "ones_like")},
    **{name: lambda x, name=name: x + getattr(torch, name)(x).fill_(1) for name in ("empty_like", "rand_like", "randn_like")},
    "full_like": lambda x: x + torch.full_like(x, 0.5),
    **{name: lambda x, name=name: x + getattr(x, name)(SIZE) for name in ("new_zeros", "new_ones")},
    "new": lambda x: x + x.new(SIZE).fill_(1),
    "new_empty": lambda x: x + x.new_empty(SIZE).fill_(1),
    "new_full": lambda x: x + x.new_full((SIZE,), 0.5),
    "new_tensor": lambda x: x + x.new_tensor([1.0, 2.0, 3.0, 4.0]),
    "retain_grad": lambda x: (x.requires_grad_().retain_grad(), x)[1],
    "register_hook": lambda x: (x.requires_grad_().register_hook(lambda grad: grad), x)[1],
}
OF_IDS = {
    "embedding": lambda ids, table: F.embedding(ids, table),
    "embedding_bag": lambda ids, table: F.embedding_bag(ids, table),
    "getitem": lambda ids, table: table[ids],
    "long": lambda ids, table: F.embedding(ids.long(), table),
    "int": lambda ids, table: F.embedding(ids.int(), table),
    "detach": lambda ids, table: F.embedding(ids.detach(), table),
    "flip": lambda ids, table: F.embedding(ids.flip(1), table),
    "cat": lambda ids, table: F.embedding(torch.cat([ids, ids[:, :1]], 1), table),
    "stack": lambda ids, table: F.embedding(torch.stack([ids[:, 0], ids[:, 2]], 1), table),
    "index_select": lambda ids, table: table.index_select(0, ids.reshape(-1)).unflatten(0, ids.shape),
    "add": lambda ids, table: F.embedding(ids + 1, table),
    "rsub": lambda ids, table: F.embedding(8 - ids, table),
    "mul": lambda ids, table: F.embedding(ids * 2 % 9, table),
    "where": lambda ids, table: F.embedding(torch.where(ids > 1, ids, 0), table),
    "masked_fill": lambda ids, table: F.embedding(ids.masked_fill(ids > 1, 0), table),
    "clamp": lambda ids, table: F.embedding(ids.clamp(max=1), table),
    "remainder": lambda ids, table: F.embedding((ids + 7) % 3, table),
    "fmod": lambda ids, table: F.embedding(torch.fmod(ids + 7, 3), table),
    "floor_divide": lambda ids, table: F.embedding(ids // 2, table),
    "bitwise_and": lambda ids, table: F.embedding(ids & 1, table),
    "bitwise_or": lambda ids, table: F.embedding(ids | 1, table),
}
APART = {"one_hot"}  # tested in tests/methods/test_token_ids.py: its vectors are not those of the table
ONLY_IDS = {name for name, known in TABLE.items() if not known.has_rule and (known.look_up or known.ids)}


def plain_call(name: str) -> Example:
    """The function of that name, called on one tensor; of a property or a method without arguments, its result is dropped."""
    if TABLE[name].reads != "numbers":
        return lambda x: (read() if callable(read := getattr(x, name)) else read, x)[1]
    plain = name.removeprefix("special_")
    homes = [home for home in (torch, F, torch.special, Tensor) if hasattr(home, plain)]
    assert homes, f"the table has a line for {name!r}, but PyTorch has no such function; a line has the function's __name__"
    return getattr(homes[0], plain)


class Model(nn.Module):
    """Steps (B, 5, 4), a linear layer, the example, and two scores."""

    def __init__(self, example: Example) -> None:
        super().__init__()
        self.first, self.example = nn.Linear(SIZE, SIZE), example

    def forward(self, x: Tensor) -> Tensor:
        flat = self.example(self.first(x)).flatten(1)
        return flat.to(x.dtype) @ weight(flat.shape[1], 2)(x)


def met(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that fills with the names of the functions that are looked up in the table."""
    names, spelling = list[str](), Table.spelling

    def noted(self: Table, function: Callable[..., Any]) -> tuple[Operation, bool]:
        found = spelling(self, function)
        names.append(found[0].name)
        return found

    monkeypatch.setattr(Table, "spelling", noted)
    return names


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "name", [name for name in TABLE if name not in ONLY_IDS and not TABLE[name].refused and not TABLE[name].leaks]
)
def test_every_line(name: str, dtype: torch.dtype, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU to move to")
    torch.manual_seed(batch)
    model, x = Model(EXAMPLES.get(name) or plain_call(name)).to(dtype), torch.randn(batch, STEPS, SIZE, dtype=dtype)
    names = met(monkeypatch)
    is_single = dtype == torch.float32 or name == "cfloat"
    result = relevance(model, x, target="all", method=LRP(epsilon=0.1)).check(1e-4 if is_single else 1e-10)
    assert name in names, f"the example of {name!r} does not call it; it calls {names}, and a line has the function's __name__"
    assert_close(result.score.T, model(x).detach())
    alone = relevance(model, x[:1], target="all", method=LRP(epsilon=0.1)).relevance
    if name not in ("pack_padded_sequence", "pad_packed_sequence"):  # their examples give samples lengths by their place
        assert_close(result.relevance[:, :1], alone)


IN_PLACE = {
    name: getattr(home, f"{name}_")
    for name, known in TABLE.items()
    if isinstance(known.rule, Activation) and not known.rule.is_choice
    for home in (torch, F, Tensor)
    if hasattr(home, f"{name}_") and name not in ("prelu", "threshold", "clamp", "clip", "clamp_min", "clamp_max")
}


@pytest.mark.parametrize("name", [*IN_PLACE, "threshold"])
def test_every_activation_in_place(name: str) -> None:
    def in_place(x: Tensor) -> Tensor:
        copy = x.clone()
        return torch.threshold_(copy, 0.1, 0.0) if name == "threshold" else IN_PLACE[name](copy)

    torch.manual_seed(0)
    x, own, plain = torch.randn(3, STEPS, SIZE).double(), Model(in_place), Model(EXAMPLES.get(name) or plain_call(name))
    plain.double().load_state_dict(own.double().state_dict())
    found = relevance(own, x, target=0).check(1e-10)
    assert_close(found.relevance, relevance(plain, x, target=0).relevance)


class Reader(nn.Module):
    """Ids (B, T), looked up in some way, and two scores."""

    def __init__(self, look_up: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.table, self.look_up = nn.Embedding(9, SIZE), look_up

    def forward(self, ids: Tensor) -> Tensor:
        flat = self.look_up(ids, self.table.weight).flatten(1)
        return flat.tanh() @ weight(flat.shape[1], 2)(flat)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", sorted({*OF_IDS, *ONLY_IDS} - APART))
def test_every_line_that_ids_pass(name: str, dtype: torch.dtype, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(batch)
    model, ids = Reader(OF_IDS[name]).to(dtype), torch.randint(9, (batch, STEPS))
    names = met(monkeypatch)
    result = relevance(model, ids, target="all", method=LRP(epsilon=0.1)).check(1e-4 if dtype == torch.float32 else 1e-10)
    assert name in names
    assert result.relevance.shape == (2, batch, STEPS, SIZE)
    assert_close(result.score.T, model(ids).detach())


def test_operators_stand_for_their_functions() -> None:
    for operator, name in TABLE.operators.items():
        assert hasattr(Tensor, operator), operator
        assert name in TABLE
