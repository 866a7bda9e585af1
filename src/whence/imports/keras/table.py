"""The one table of Keras layers: a class name of a file, and the layer that computes the same."""

from collections.abc import Mapping

from whence.imports.keras import basic, merging, operations
from whence.imports.keras.layer import KerasLayer
from whence.imports.keras.recurrent import RECURRENT
from whence.imports.keras.wrappers import Bidirectional, TimeDistributed

# Layers that do nothing in a prediction.
TRAINING_ONLY = """
    Dropout SpatialDropout1D GaussianNoise GaussianDropout AlphaDropout ActivityRegularization Identity
""".split()

LAYERS: Mapping[str, type[KerasLayer]] = {
    **dict.fromkeys(TRAINING_ONLY, basic.Identity),
    **RECURRENT,
    **{
        layer.__name__: layer
        for layer in (
            basic.Embedding, basic.Masking, basic.Dense, basic.Conv1D, basic.MaxPooling1D, basic.AveragePooling1D,
            basic.GlobalMaxPooling1D, basic.GlobalAveragePooling1D, basic.BatchNormalization, basic.LayerNormalization,
            basic.Normalization, basic.Rescaling, basic.Activation, basic.ReLU, basic.LeakyReLU, basic.ELU, basic.PReLU,
            basic.Softmax, basic.Flatten, basic.Reshape, basic.Permute, basic.RepeatVector, basic.ZeroPadding1D,
            basic.Cropping1D, basic.UpSampling1D,
            merging.Add, merging.Subtract, merging.Multiply, merging.Average, merging.Maximum, merging.Minimum,
            merging.Concatenate, merging.Dot, merging.Attention, merging.AdditiveAttention, merging.MultiHeadAttention,
            Bidirectional, TimeDistributed,
        )
    },
}  # fmt: skip

# Operations of Keras 3, which stand in a graph beside the layers; some have the name of a layer.
OPERATIONS: Mapping[str, type[KerasLayer]] = {
    "Add": operations.AddOperation,
    "Subtract": operations.SubtractOperation,
    "Multiply": operations.MultiplyOperation,
    "Divide": operations.DivideOperation,
    "TrueDivide": operations.DivideOperation,
    "Concatenate": merging.Concatenate,
    **{
        layer.__name__: layer
        for layer in (
            operations.NotEqual, operations.LogicalOr, operations.LogicalAnd, operations.Any, operations.ExpandDims,
            operations.Squeeze, operations.ZerosLike, operations.OnesLike, operations.ConvertToTensor,
        )
    },
}  # fmt: skip

TimeDistributed.inner_layers = {
    name: layer for name, layer in LAYERS.items() if name not in ("Bidirectional", "TimeDistributed") and layer.most_inputs == 1
}
