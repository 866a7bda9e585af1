"""The one table of torch functions: a line for each, with its rule and everything else that is known about it.

A function without a line has no rule; an explanation that needs one raises. Names on one line are treated alike. A line
applies to the function, to the tensor's method of that name, to its in-place form (with a trailing underscore) and to the
`operators` named on it.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch.nn import functional as F

from whence.engine import attention, lookups, maps, products, rewrites, sums, weighted
from whence.engine.activations import (
    NORMALISES,
    SIGMOID,
    SIGN,
    STEP_SIZE,
    Activation,
    Joint,
    exponential,
    power,
    within_unit,
)
from whence.engine.maps import RECAST, Map, cast_to
from whence.engine.normalisers import ByHand, Logarithm, LogSum, Normaliser
from whence.engine.operation import Operation, RuleFor, Table
from whence.engine.recurrence import RECURRENCES
from whence.engine.refusal import LEAVES
from whence.engine.routing import Dropout, ElementChoice, Pick, Routing
from whence.engine.rule import Rule
from whence.engine.weighted import Weighted, convolution

EXPERTS = (
    'it multiplies all experts of a mixture at once; of a model of transformers, model.set_experts_implementation("eager") '
    "calls them one by one"
)


def line(
    names: str, rule: Rule | RuleFor | None = None, *, operators: str = "", **known: Any
) -> tuple[Sequence[Operation], Sequence[str]]:
    """One line of the table. Token ids can be followed through whatever only rearranges or casts numbers."""
    if isinstance(rule, Rule) and (rule.casts or rule.rearranges):
        known = {"ids": "casts" if rule.casts else "moves", **known}
    return [Operation(name, rule, **known) for name in names.split()], operators.split()


def dense(read: weighted.Reader) -> Weighted:
    """The rule for calls that connect inputs with outputs as a dense layer does."""
    return Weighted(read, is_dense=True)


CONVOLUTIONS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"

TABLE = Table([
    # Weighted connections
    line("linear", dense(weighted.linear), weighs="always", apart=products.if_several(products.linear_product, factors=2)),
    line("matmul mm", dense(weighted.matmul), operators="__matmul__", weighs="trained",
         apart=products.if_several(products.matrix_product)),
    line("bmm mv dot sparse_mm", dense(weighted.matmul), apart=products.if_several(products.matrix_product)),
    line("rmatmul", rewrite=rewrites.multiply_into, operators="__rmatmul__"),
    line("einsum", dense(weighted.einsum), weighs="trained", apart=products.if_several(products.einsum_product)),
    *(line(name, dense(convolution(getattr(F, name)))) for name in CONVOLUTIONS.split()),
    line("outer ger", Weighted(weighted.product_of(torch.outer))),
    line("tensordot", dense(weighted.product_of(cast(Any, torch.tensordot)))),
    line("bilinear", dense(weighted.bilinear), apart=products.if_several(products.bilinear_product)),
    line("layer_norm", Weighted(weighted.layer_norm)),
    line("batch_norm", Weighted(weighted.batch_norm)),
    line("addmm", dense(weighted.addmm), weighs="trained", apart=products.unless_dense(rewrites.add_product)),
    line("addmv baddbmm", rewrite=rewrites.add_product),
    line("group_norm", rewrite=rewrites.group_norm),
    line("rms_norm", rewrite=rewrites.rms_norm),
    line("instance_norm", rewrite=rewrites.instance_norm),
    line("normalize", rewrite=rewrites.normalize),
    line("norm linalg_norm linalg_vector_norm", rewrite=rewrites.norm),
    line("var", rewrite=rewrites.variance),
    line("std", rewrite=rewrites.deviation),
    line("cosine_similarity", rewrite=rewrites.cosine_similarity),
    line("scaled_dot_product_attention", rewrite=attention.scaled_dot_product_attention),
    line("multi_head_attention_forward", rewrite=attention.multi_head_attention_forward),

    # Sums
    line("add", products.addition(sums.add), operators="__add__ __radd__ __iadd__", ids="computes"),
    line("sub subtract", products.addition(sums.subtract), operators="__sub__ __isub__", ids="computes"),
    line("rsub", products.addition(sums.subtract_from), operators="__rsub__", ids="computes"),
    line("neg negative", sums.Sum(sums.negate), operators="__neg__"),
    line("sum", sums.Reduction()),
    line("mean", sums.Reduction(is_mean=True)),
    line("cumsum", sums.Reduction(is_running=True)),
    line("avg_pool1d", rewrite=rewrites.average_pool),
    line("adaptive_avg_pool1d", rewrite=rewrites.adaptive_average_pool),

    # Linear maps by their derivative
    line("avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d interpolate scatter_add index_add fold trace", Map()),
    line("fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft", Map(axes=maps.transformed)),
    line("fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2", Map(axes=maps.transformed_twice)),
    line("fft_fftn fft_ifftn fft_rfftn fft_irfftn", Map(axes=maps.transformed_everywhere)),
    line("real imag conj resolve_conj conj_physical complex view_as_real", Map(axes=maps.nowhere)),
    line("view_as_complex", Map(axes=maps.last)),

    # Products
    line("mul multiply", products.multiplication, operators="__mul__ __rmul__ __imul__", ids="computes"),
    line("div divide true_divide", products.division, operators="__truediv__ __itruediv__", apart=products.quotient_apart),
    line("__rdiv__", rewrite=rewrites.divide_into),
    line("square", rewrite=rewrites.square),
    line("addcmul", rewrite=rewrites.add_elementwise_product),
    line("lerp", rewrite=rewrites.interpolate),
    line("glu", rewrite=rewrites.gated_linear_unit),
    line("prod", rewrite=products.whole_product),
    line("cumprod", rewrite=products.running_product),
    line("gate", products.Marked()),
    line("softmax_by_hand", ByHand()),

    # Activations. To add an elementwise activation, add its name to the first line.
    line("tanh relu relu6 leaky_relu elu selu celu gelu silu mish softsign tanhshrink hardswish prelu erf", Activation()),
    line("threshold", Activation()),
    line("hardtanh", Activation(gate=within_unit)),
    line("clamp_min clamp_max", Activation(), ids="computes"),
    line("clamp clip", Activation(gate=within_unit), ids="computes"),
    line("softplus", Activation(gate=STEP_SIZE, squashes=True)),
    line("log_sigmoid", Activation(squashes=True)),
    line("sigmoid hardsigmoid", Activation(gate=SIGMOID, squashes=True)),
    line("special_expit", rewrite=rewrites.sigmoid),
    line("softmax softmin", Normaliser(gate=SIGMOID, squashes=True, is_choice=True, words="softmax")),
    line("log_softmax", Normaliser(squashes=True, is_choice=True, words="softmax")),
    line("exp", Activation(gate=exponential, squashes=True, is_choice=True)),
    line("sign sgn", Activation(gate=SIGN, is_choice=True)),
    line("rsqrt reciprocal", Activation(gate=NORMALISES, is_choice=True)),
    line("log", Logarithm(is_choice=True)),
    line("sqrt abs sin cos atan log1p expm1 sinh asinh log2 exp2 log10 logit nan_to_num", Activation(is_choice=True)),
    line("logsumexp logcumsumexp", LogSum()),
    line("logaddexp", rewrite=rewrites.add_in_log_space),
    line("two_scores", Joint()),
    line("pow", Activation(gate=power, is_choice=True), operators="__pow__"),

    # Recurrent layers and cells
    *(line(name, rule) for name, rule in RECURRENCES.items()),

    # Moves: relevance moves with the numbers
    line("cat concat concatenate contiguous clone", Routing(keeps_axes=True)),
    line("stack hstack vstack dstack column_stack row_stack", Routing()),
    line("getitem", Routing(), operators="__getitem__", look_up=lookups.indexed),
    line("index_select", Routing(), look_up=lookups.selected),
    line("pack_padded_sequence reshape view flatten squeeze unsqueeze", Routing()),
    line("view_as reshape_as expand_as", Routing(), reads_like=True),
    line("detach data", rewrite=rewrites.detach, ids="moves"),
    line("split split_with_sizes tensor_split chunk unbind pixel_shuffle pixel_unshuffle channel_shuffle", Routing()),
    line("select narrow gather take take_along_dim masked_select diagonal", Routing()),
    line("flip roll rot90 transpose swapaxes swapdims movedim moveaxis permute t T mT H mH adjoint", Routing()),
    line("unflatten ravel expand broadcast_to broadcast_tensors repeat repeat_interleave tile atleast_2d", Routing()),
    line("positive", Routing(keeps_axes=True), operators="__pos__"),
    line("pad constant_pad_nd pad_sequence pad_packed_sequence unfold", Routing(fills=True)),
    line("diag diag_embed block_diag index_fill", Routing(fills=True)),
    line("where", ElementChoice(keeps_axes=True), ids="computes"),
    line("masked_fill", Routing(fills=True, keeps_axes=True), ids="computes"),
    line("tril triu", Routing(fills=True, keeps_axes=True)),
    line("setitem", Routing(fills=True, overwrites=True), operators="__setitem__", writes=True),
    line("copy", Routing(), erases=True),
    line("index_copy index_put", Routing(overwrites=True)),
    line("scatter", Routing(fills=True, overwrites=True)),
    line("zero fill", Routing(fills=True), erases=True),
    line("untyped_storage storage", refused=LEAVES),
    line("__dlpack__ data_ptr numpy __array__", leaks=True),
    line("grouped_mm", refused=EXPERTS),
    line("__deepcopy__", rewrite=rewrites.deep_copy),
    line("__set__", refused="it writes into a given tensor; use its result instead"),
    line("reversed", rewrite=rewrites.turn_round, operators="__reversed__"),
    line("dropout", Dropout()),
    line("dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout", Dropout()),

    # Casts
    line("to type_as", cast_to, reads_like=True, ids="casts"),
    line("type", rewrite=rewrites.typed, ids="casts"),
    line("double float half bfloat16 cpu cuda", cast_to, ids="casts"),
    line("cfloat cdouble", RECAST),
    line("long int", ids="casts"),

    # Picks by value
    line("max amax min amin maximum minimum fmax fmin sort topk kthvalue median cummax cummin", Pick()),
    line("max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d", Pick()),

    # Look-ups of token ids
    line("embedding", look_up=lookups.embedding),
    line("embedding_bag", look_up=lookups.bag),
    line("one_hot", look_up=lookups.one_hot),
    line("remainder", ids="computes", operators="__mod__"),
    line("floor_divide", ids="computes", operators="__floordiv__"),
    line("bitwise_and", ids="computes", operators="__and__"),
    line("bitwise_or", ids="computes", operators="__or__"),
    line("fmod", ids="computes"),

    # Calls that do not read the numbers
    line("zeros_like ones_like full_like empty_like rand_like randn_like", makes_constant=True),
    line("new_zeros new_ones new_full new_empty new_tensor new", makes_constant=True),
    line("shape dtype device layout ndim is_cuda is_sparse is_nested size dim numel stride is_floating_point", reads="form"),
    line("requires_grad retain_grad register_hook _backward_hooks", reads="nothing"),
])  # fmt: skip
