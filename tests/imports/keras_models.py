"""Keras models, one for every layer and option that is read; Keras itself runs on PyTorch here."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras

L: Any = keras.layers

E, U, WORDS = 3, 4, 7


def seeded(model: Any, seed: int = 0, *, scale: float = 0.6) -> Any:
    """Random weights everywhere, also where Keras begins with zeros or ones."""
    import numpy as np

    numbers = np.random.default_rng(seed)
    model.set_weights(
        [
            numbers.uniform(0.5, 1.5, size=w.shape) if "variance" in v.path else numbers.normal(size=w.shape) * scale
            for v, w in zip(model.weights, model.get_weights(), strict=True)
        ]
    )
    return model


def series(*layers: Any, steps: int | None = None) -> Any:
    """Layers behind an input of numbers, (B, T, E)."""
    return seeded(keras.Sequential([keras.Input((steps, E)), *layers]))


def words(*layers: Any, mask_zero: bool = True, steps: int | None = None) -> Any:
    """Layers behind an embedding of token ids."""
    return seeded(keras.Sequential([keras.Input((steps,), dtype="int32"), L.Embedding(WORDS, E, mask_zero=mask_zero), *layers]))


def masked(*layers: Any) -> Any:
    """Layers behind a mask of steps of zeros."""
    return series(L.Masking(0.0), *layers)


CELLS: dict[str, Callable[..., Any]] = {"LSTM": L.LSTM, "GRU": L.GRU, "SimpleRNN": L.SimpleRNN}
CELL_OPTIONS: dict[str, dict[str, Any]] = {
    "last": {},
    "sequences": {"return_sequences": True},
    "backwards": {"go_backwards": True},
    "backwards-sequences": {"go_backwards": True, "return_sequences": True},
    "no-bias": {"use_bias": False},
    "relu": {"activation": "relu"},
    "unrolled": {"unroll": True},
    "dropout": {"dropout": 0.5, "recurrent_dropout": 0.5},
    "zeros-where-masked": {"return_sequences": True, "zero_output_for_mask": True},
}
GATED = ("LSTM", "GRU")
IN_CELLS = (
    "linear tanh sigmoid hard_sigmoid relu relu6 leaky_relu softmax log_softmax log_sigmoid softplus softsign soft_shrink "
    "hard_shrink tanh_shrink hard_tanh elu selu celu gelu silu hard_silu mish exponential sparse_sigmoid"
).split()


def functional(build: Callable[..., Any], *shapes: tuple[int | None, ...]) -> Any:
    inputs = [keras.Input(shape) for shape in shapes or ((None, E),)]
    return seeded(keras.Model(inputs if len(inputs) > 1 else inputs[0], build(*inputs)))


def encoder_decoder(a: Any, b: Any) -> Any:
    _, h, c = L.LSTM(U, return_state=True)(a)
    return L.Dense(2)(L.LSTM(U, return_sequences=True)(b, initial_state=[h, c]))


def bidirectional_states(a: Any, b: Any) -> Any:
    _, *states = L.Bidirectional(L.GRU(U, return_state=True))(a)
    return L.Bidirectional(L.GRU(U))(b, initial_state=states)


def bidirectional_lstm_states(a: Any, b: Any) -> Any:
    _, *states = L.Bidirectional(L.LSTM(U, return_state=True))(a)
    return L.Bidirectional(L.LSTM(U, return_sequences=True))(b, initial_state=states)


def masked_states() -> Any:
    a = keras.Input((None,), dtype="int32")
    x = L.Embedding(WORDS, E, mask_zero=True)(a)
    y, h, c = L.LSTM(U, return_state=True, return_sequences=True)(x)
    return seeded(keras.Model(a, L.GRU(U)(L.LSTM(U, return_sequences=True)(y, initial_state=[h, c]))))


def shared(a: Any, b: Any) -> Any:
    layer = L.LSTM(U)
    return L.Concatenate()([layer(a), layer(b)])


def nested(a: Any) -> Any:
    inner = functional(lambda x: L.BatchNormalization()(L.Dense(E)(x)))
    chain = keras.Sequential([keras.Input((None, E)), L.Dense(E), L.LSTM(U)])
    return L.Dense(2)(L.Concatenate()([chain(inner(inner(a))), L.GlobalMaxPooling1D()(inner(a))]))


def frozen(a: Any) -> Any:
    inner = functional(lambda x: L.Dense(E)(L.BatchNormalization()(L.Dense(E)(x))))
    inner.layers[1].trainable = False
    return L.Dense(2)(L.LSTM(U)(inner(a)))


def masked_pair(layer: Any) -> Any:
    a, b = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    table = L.Embedding(WORDS, E, mask_zero=True)
    return seeded(keras.Model([a, b], L.LSTM(U)(layer([table(a), table(b)]))))


def masked_attention() -> Any:
    a = keras.Input((None,), dtype="int32")
    x = L.LSTM(U, return_sequences=True)(L.Embedding(WORDS, E, mask_zero=True)(a))
    return seeded(keras.Model(a, L.GlobalAveragePooling1D()(L.MultiHeadAttention(2, 3)(x, x))))


def dotted(axes: Any, *, normalize: bool = False) -> Any:
    return functional(lambda a, b: L.Flatten()(L.Dot(axes, normalize=normalize)([a, b])), (4, E), (4, E))


def several(*layers: Any, way: str = "plain", steps: int | None = None, scale: float = 0.6) -> Any:
    """A model with an output for every layer; all read the same steps: as they are, masked, or embedded words with a mask."""
    inputs = keras.Input((None,), dtype="int32") if way == "words" else keras.Input((steps, E))
    read = {"plain": lambda x: x, "mask": L.Masking(0.0), "words": L.Embedding(WORDS, E, mask_zero=True)}[way]
    x = read(inputs)
    return seeded(keras.Model(inputs, [layer(x) for layer in layers]), scale=scale)


WAYS = ("plain", "mask", "words")

CASES: dict[str, Callable[[], Any]] = {
    **{
        f"{cell}-{way}": lambda cell=cell, way=way: several(
            *(CELLS[cell](U, **options) for name, options in CELL_OPTIONS.items() if way == "plain" or name != "unrolled"),
            way=way,
            steps=6,
        )
        for cell in CELLS
        for way in WAYS
    },
    **{
        f"{cell}-activations": lambda cell=cell: several(*(CELLS[cell](U, activation=n) for n in IN_CELLS), steps=3, scale=0.2)
        for cell in CELLS
    },
    **{
        f"{cell}-gates": lambda cell=cell: several(
            *(CELLS[cell](U, recurrent_activation=n) for n in IN_CELLS), steps=3, scale=0.2
        )
        for cell in GATED
    },
    **{
        f"GRU-before-{way}": lambda way=way: several(
            *(L.GRU(U, reset_after=False, use_bias=bias) for bias in (True, False)), way=way
        )
        for way in WAYS
    },
    **{
        f"Bidirectional-{cell}-{way}": lambda cell=cell, way=way: several(
            *(
                L.Bidirectional(CELLS[cell](U, return_sequences=sequences), merge_mode=mode)
                for mode in ("concat", "sum", "ave", "mul")
                for sequences in (True, False)
            ),
            way=way,
        )
        for cell in CELLS
        for way in WAYS
    },
    "GRU-after-hard": lambda: masked(L.GRU(U, recurrent_activation="hard_sigmoid")),
    "Bidirectional-apart": lambda: words(L.Bidirectional(L.GRU(U, return_sequences=True, reset_after=False))),
    "Bidirectional-apart-last": lambda: masked(L.Bidirectional(L.LSTM(U, activation="elu"))),
    "Bidirectional-two-kinds": lambda: words(
        L.Bidirectional(L.LSTM(U), backward_layer=L.GRU(U + 1, go_backwards=True)), mask_zero=False
    ),
    "Bidirectional-two-outputs": lambda: functional(lambda a: L.Add()(L.Bidirectional(L.LSTM(U), merge_mode=None)(a))),
    "Bidirectional-states": lambda: functional(bidirectional_states, (None, E), (None, E)),
    "Bidirectional-lstm-states": lambda: functional(bidirectional_lstm_states, (None, E), (None, E)),
    "two-layers": lambda: words(L.LSTM(U, return_sequences=True), L.Dropout(0.5), L.GRU(U), L.Dense(3, activation="softmax")),
    "cells": lambda: series(L.RNN(L.LSTMCell(U)), L.Dense(2)),
    "stateful": lambda: seeded(
        keras.Sequential([keras.Input(batch_shape=(2, 5, E)), L.LSTM(U, stateful=True), L.Dense(2)])
    ),
    "Conv1D": lambda: several(
        *(
            L.Conv1D(6, 3, padding=padding, strides=stride, dilation_rate=dilation, groups=groups, activation="relu")
            for padding in ("valid", "same", "causal")
            for stride, dilation, groups in ((1, 1, 1), (2, 1, 1), (3, 1, 3), (1, 2, 1))
        ),
        steps=11,
    ),
    "Conv1D-even": lambda: series(L.Conv1D(2, 4, padding="same", use_bias=False), steps=10),
    "MaxPooling1D": lambda: several(
        *(L.MaxPooling1D(3, stride, padding=padding) for padding in ("valid", "same") for stride in (None, 1, 2)), steps=10
    ),
    "AveragePooling1D": lambda: series(L.AveragePooling1D(3, 2), steps=10),
    **{
        f"global-pooling-{way}": lambda way=way: several(
            *(layer(keepdims=keep) for layer in (L.GlobalMaxPooling1D, L.GlobalAveragePooling1D) for keep in (True, False)),
            way=way,
        )
        for way in WAYS
    },
    "Dense": lambda: several(*(L.Dense(U, activation=n) for n in IN_CELLS)),
    "Dense-masked": lambda: masked(L.Dense(U, use_bias=False), L.LSTM(U)),
    "training-only": lambda: masked(
        L.Dropout(0.5), L.SpatialDropout1D(0.5), L.GaussianNoise(1.0), L.GaussianDropout(0.5), L.AlphaDropout(0.5),
        L.ActivityRegularization(0.1), L.LSTM(U),
    ),
    "BatchNormalization": lambda: masked(L.BatchNormalization(), L.LSTM(U)),
    "BatchNormalization-bare": lambda: series(L.BatchNormalization(scale=False, center=False, epsilon=0.1)),
    "BatchNormalization-axis": lambda: series(L.BatchNormalization(axis=1), steps=5),
    "LayerNormalization": lambda: masked(L.LayerNormalization(), L.LSTM(U)),
    "LayerNormalization-scale": lambda: series(L.LayerNormalization(center=False)),
    "Normalization": lambda: series(L.Normalization(), L.LSTM(U)),
    "Rescaling": lambda: series(L.Rescaling(0.5, 1.0), L.LSTM(U)),
    "activations": lambda: masked(L.Activation("tanh"), L.ReLU(), L.LeakyReLU(0.2), L.ELU(0.5), L.LSTM(U)),
    "ReLU-limit": lambda: series(L.ReLU(max_value=0.5)),
    "ReLU-slope": lambda: series(L.ReLU(negative_slope=0.5)),
    "PReLU": lambda: series(L.PReLU(), steps=4),
    "PReLU-shared": lambda: masked(L.PReLU(shared_axes=[1]), L.LSTM(U)),
    "Softmax": lambda: series(L.Softmax(axis=1)),
    "TimeDistributed": lambda: masked(L.TimeDistributed(L.Dense(2, activation="tanh")), L.LSTM(U)),
    "TimeDistributed-LSTM": lambda: seeded(keras.Sequential([keras.Input((4, 5, E)), L.TimeDistributed(L.LSTM(U)), L.GRU(U)])),
    "RepeatVector": lambda: series(L.LSTM(U), L.RepeatVector(3), L.LSTM(U, return_sequences=True), L.Dense(2)),
    "Flatten": lambda: series(L.Flatten(), L.Dense(2), steps=4),
    "Reshape": lambda: series(L.Reshape((-1, 2)), L.LSTM(U), steps=4),
    "Permute": lambda: series(L.Permute((2, 1)), L.LSTM(U), steps=4),
    "ZeroPadding1D": lambda: series(L.ZeroPadding1D((1, 2)), L.LSTM(U)),
    "Cropping1D": lambda: series(L.Cropping1D((1, 2)), L.LSTM(U)),
    "UpSampling1D": lambda: series(L.UpSampling1D(3), L.LSTM(U)),
    **{
        layer.__name__: lambda layer=layer: functional(lambda a, b: L.LSTM(U)(layer()([a, b])), (4, E), (4, E))
        for layer in (L.Add, L.Subtract, L.Multiply, L.Average, L.Maximum, L.Minimum, L.Concatenate)
    },
    "Add-broadcast": lambda: functional(lambda a, b: L.LSTM(U)(L.Add()([a, b])), (4, E), (E,)),
    "Concatenate-time": lambda: functional(lambda a, b: L.LSTM(U)(L.Concatenate(axis=1)([a, b])), (4, E), (3, E)),
    **{
        f"masked-{layer.name.split('_')[0]}": lambda layer=layer: masked_pair(layer)
        for layer in (L.Add(), L.Subtract(), L.Multiply(), L.Average(), L.Concatenate(), L.Concatenate(axis=1, name="joined"))
    },
    **{
        f"masked-{name}": lambda layer=layer: masked_pair(layer)
        for name, layer in {
            "Attention": L.Attention(), "Attention-scale": L.Attention(use_scale=True),
            "Attention-concat": L.Attention(score_mode="concat", use_scale=True), "AdditiveAttention": L.AdditiveAttention(),
            "AdditiveAttention-plain": L.AdditiveAttention(use_scale=False),
        }.items()
    },
    "Attention-key": lambda: functional(lambda a, b, c: L.Attention()([a, b, c]), (4, E), (3, E), (3, E)),
    "Attention-causal": lambda: functional(lambda a: L.Attention()([a, a], use_causal_mask=True)),
    "MultiHeadAttention": lambda: functional(lambda a, b: L.MultiHeadAttention(2, 3, value_dim=5)(a, b), (4, E), (3, E)),
    "MultiHeadAttention-key": lambda: functional(
        lambda a, b, c: L.MultiHeadAttention(2, 3, use_bias=False)(a, b, key=c, use_causal_mask=True), (4, E), (4, E), (4, 2)
    ),
    "MultiHeadAttention-masked": masked_attention,
    **{f"Dot-{axes}": lambda axes=axes: dotted(axes) for axes in (1, 2, -1)},
    "Dot-pair": lambda: functional(lambda a, b: L.Flatten()(L.Dot((2, 1))([a, b])), (4, E), (E, 2)),
    "Dot-vectors": lambda: functional(lambda a, b: L.Dot(1, normalize=True)([a, b]), (E,), (E,)),
    "Dot-weights": lambda: functional(lambda a, b: L.Dot((1, 1))([a, b]), (4, E), (4,)),
    "masked-states": masked_states,
    "encoder-decoder": lambda: functional(encoder_decoder, (None, E), (None, E)),
    "shared": lambda: functional(shared, (None, E), (None, E)),
    "nested": lambda: functional(nested),
    "frozen": lambda: functional(frozen),
    "several-outputs": lambda: functional(lambda a: [L.LSTM(U)(a), L.Dense(2)(a)]),
    "operations": lambda: functional(lambda a: L.LSTM(U)(2.0 * a * a + a - 1.0)),
    "passed-on": lambda: functional(lambda a: a * L.Dense(E, activation="sigmoid")(a)),
}  # fmt: skip


def saved(model: Any, folder: Path, suffix: str) -> Path:
    """The model in a file."""
    path = folder / f"model{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(path)
    return path
