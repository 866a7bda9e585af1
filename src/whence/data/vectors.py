"""Word vectors from a file, fitted to a vocabulary and a size."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whence.errors import DataError


def read_vectors(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Words and vectors from a GloVe-style text (a word and its numbers a line) or an npz with `words` and `vectors`."""
    try:
        if path.suffix == ".npz":
            with np.load(path) as file:
                words, vectors = [str(word) for word in file["words"]], file["vectors"].astype(np.float64)
        else:
            with path.open(encoding="utf-8") as file:
                rows = [line.rstrip("\n").split(" ") for line in file]
            words, vectors = [row[0] for row in rows], np.array([[float(x) for x in row[1:]] for row in rows])
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; --vectors takes a text of words and numbers, or an npz") from None
    except Exception as error:  # whatever a broken archive makes NumPy and zipfile raise
        raise DataError(f"{path} holds no word vectors: {str(error)[:200]}") from None
    if vectors.ndim != 2 or len(words) != len(vectors) or not np.isfinite(vectors).all():
        raise DataError(f"{path} holds no word vectors: {len(words)} words and an array of shape {vectors.shape}")
    return words, vectors


def fitted(words: Sequence[str], vectors: NDArray[np.float64], tokens: Sequence[str], *, size: int) -> NDArray[np.float64]:
    """Vectors for a vocabulary: centred, their `size` first principal components, of standard deviation ½.

    The first token, the unknown one, gets zeros; a token without a vector gets small random numbers.
    """
    centred = vectors - vectors.mean(0)
    if centred.shape[1] > size:
        centred = centred @ np.linalg.svd(centred, full_matrices=False)[2][:size].T
    if not centred.std() > 0:
        raise DataError("the word vectors are all alike; they say nothing about the words")
    centred *= 0.5 / centred.std()
    places = {word: n for n, word in enumerate(words)}
    random = np.random.default_rng(0)
    found = random.normal(scale=0.1, size=(len(tokens), size))
    found[0] = 0
    for n, token in enumerate(tokens[1:], start=1):
        if token in places:
            found[n] = 0
            found[n, : centred.shape[1]] = centred[places[token]]
    return found
