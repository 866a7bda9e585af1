"""Attention, written as calls that have rules: the softmax weights are gates, the values their sources."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from whence.engine.rule import Refused


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ / √d + mask) V."""
    if dropout_p > 0:
        raise Refused("its dropout is active; an explanation needs a prediction that stays the same")
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    return scores.softmax(-1) @ value


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """F.multi_head_attention_forward, what nn.MultiheadAttention calls: (L, B, E), or (L, E) without a batch."""
    if bias_k is not None or bias_v is not None or add_zero_attn or static_k is not None or static_v is not None:
        raise Refused("bias_k, bias_v, add_zero_attn, static_k and static_v have no rule")
    if training and dropout_p > 0:
        raise Refused("its dropout is active; an explanation needs a prediction that stays the same")
    unbatched = query.dim() == 2
    if unbatched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    if use_separate_proj_weight:
        assert q_proj_weight is not None and k_proj_weight is not None and v_proj_weight is not None
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        assert in_proj_weight is not None
        weights = in_proj_weight.chunk(3)
    biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (
        heads(F.linear(x, weight, bias), num_heads)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))  # (B, heads, L, S)
    if attn_mask is not None:
        mask = attn_mask.reshape(-1, num_heads, *attn_mask.shape[-2:]) if attn_mask.dim() == 3 else attn_mask
        scores = masked(scores, mask)
    if key_padding_mask is not None:
        scores = masked(scores, key_padding_mask[:, None, None])
    attention = scores.softmax(-1)
    joined = (attention @ v).permute(2, 0, 1, 3).flatten(2)  # (L, B, E)
    output = F.linear(joined, out_proj_weight, out_proj_bias)
    shown = (attention.mean(1) if average_attn_weights else attention) if need_weights else None
    if unbatched:
        output, shown = output.squeeze(1), None if shown is None else shown.squeeze(0)
    return output, shown


def heads(projected: Tensor, number: int) -> Tensor:
    """(L, B, E) to (B, heads, L, E / heads)."""
    return torch.unflatten(projected, -1, (number, -1)).permute(1, 2, 0, 3)


def masked(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores with a mask of booleans (True: left out) or of numbers to add."""
    return scores.masked_fill(mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
