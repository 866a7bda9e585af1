"""Word vectors: read from a file, and fitted to a vocabulary and an embedding size."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whence.errors import DataError


def read_vectors(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Words and vectors from GloVe-style text (one word and its numbers per line) or an npz file with `words` and `vectors`."""
    try:
        if path.suffix == ".npz":
            with np.load(path) as file:
                words, vectors = [str(word) for word in file["words"]], file["vectors"].astype(np.float64)
        else:
            with path.open(encoding="utf-8") as file:
                rows = [line.rstrip("\n").split(" ") for line in file]
            words, vectors = [row[0] for row in rows], np.array([[float(x) for x in row[1:]] for row in rows])
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; --vectors takes a text file of words and numbers, or an npz file") from None
    except Exception as error:  # NumPy and zipfile raise many kinds for a broken file
        raise DataError(f"{path} does not contain word vectors: {str(error)[:200]}") from None
    if vectors.ndim != 2 or len(words) != len(vectors) or not np.isfinite(vectors).all():
        raise DataError(f"{path} does not contain word vectors: {len(words)} words and an array of shape {vectors.shape}")
    return words, vectors


def fitted(words: Sequence[str], vectors: NDArray[np.float64], tokens: Sequence[str], *, size: int) -> NDArray[np.float64]:
    """Vectors for a vocabulary: centred, reduced to their first `size` principal components, with standard deviation ½.

    The first token, which is the unknown one, gets zeros. A token without a vector gets small random numbers.
    """
    centred = vectors - vectors.mean(0)
    if centred.shape[1] > size:
        centred = centred @ np.linalg.svd(centred, full_matrices=False)[2][:size].T
    if not centred.std() > 0:
        raise DataError("all word vectors are equal, so they carry no information; give another file")
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
