# %% [markdown]
# # Keras and ONNX
#
# `whence.from_keras` and `whence.from_onnx` read a file of another framework and give a PyTorch module that
# computes the same. Everything else works as with any module. The import is compared with the other
# framework, where that is installed, and says so.

# %%
import os
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import torch

import whence
from whence.text.tokenizer import TreebankTokenizer

folder = Path(tempfile.mkdtemp())
warnings.simplefilter("ignore")  # PyTorch's exporter warns of what does not matter here
keras.utils.set_random_seed(0)
torch.set_num_threads(1)

# %% [markdown]
# ## From Keras
#
# A bidirectional LSTM as many tutorials of Keras build it, saved to a file.

# %%
layers = keras.layers
model = keras.Sequential(
    [
        keras.Input((None,), dtype="int32"),
        layers.Embedding(50, 8),
        layers.Bidirectional(layers.LSTM(8)),
        layers.Dense(3),
    ]
)
model.save(folder / "classifier.keras")

imported = whence.from_keras(folder / "classifier.keras")
print(imported.proof)
print(imported)

# %%
ids = torch.randint(1, 50, (2, 7))
result = whence.relevance(imported, ids, target="predicted")
print(result.relevance.sum(-1))  # one number per token
result

# %% [markdown]
# The scores are those of Keras.

# %%
theirs = keras.ops.convert_to_numpy(model(ids.numpy())).max(1)
print(theirs, result.score.numpy())
assert abs(theirs - result.score.numpy()).max() < 1e-4

# %% [markdown]
# ## Words
#
# The model reads the ids of words. Together with the words, a tokenizer and the names of the classes it is a
# pipeline, which explains texts. Its folder holds all of that; loading it needs no Keras.

# %%
words = ["<pad>", "<unk>", "a", "good", "bad", "film"]  # in the order of their ids
vocabulary = whence.Vocabulary(words, unknown="<unk>", padding="<pad>")
pipeline = whence.Pipeline(imported, TreebankTokenizer(), vocabulary, ("poor", "fair", "great"))
pipeline.save(folder / "classifier")

explanation = whence.explain(whence.load(folder / "classifier"), "a good old film", target="great")
for word, relevance in zip(explanation.tokens, explanation.relevance, strict=True):
    print(f"{word:>6} {relevance:+.4f}")
explanation

# %% [markdown]
# The weights of this model are random, so the numbers mean nothing yet. On the command line, the same is
#
#     whence import keras classifier.keras --output classifier --vocabulary words.txt \
#         --unknown "<unk>" --padding "<pad>" --classes poor,fair,great
#     whence explain "a good old film" --model classifier
#
# where `words.txt` holds one word per line.

# %% [markdown]
# ## From ONNX
#
# Any framework that writes ONNX will do; here PyTorch does. `dynamic_axes` lets the batch
# and the number of steps differ from those of the export.


# %%
class Forecaster(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = torch.nn.GRU(4, 8, batch_first=True), torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


original, x = Forecaster().eval(), torch.randn(3, 6, 4)
path = folder / "forecaster.onnx"
axes = {"x": {0: "batch", 1: "time"}}
torch.onnx.export(original, (x,), path, input_names=["x"], dynamic_axes=axes, dynamo=False)
imported = whence.from_onnx(path)
print(imported.proof)

# %%
ours = whence.relevance(imported, x, target=1).relevance
direct = whence.relevance(original, x, target=1).relevance
print("largest difference from the original's relevance:", (ours - direct).abs().max().item())
assert torch.allclose(ours, direct, atol=1e-4)
