"""Feeds random bytes to everything that reads files and texts of others; nothing may crash, hang or lose a character.

Needs atheris, which nothing else here does:  pip install atheris && python benchmarks/fuzz.py -runs=1000000
"""

import contextlib
import sys
import tempfile
from pathlib import Path

import atheris  # pyright: ignore[reportMissingImports]

with atheris.instrument_imports(include=["whence"]):  # pyright: ignore
    import torch

    from whence.data.sst import parse_tree
    from whence.errors import DataError, ModelError
    from whence.models.classifier import Architecture, RecurrentClassifier
    from whence.models.pipeline import Pipeline, load_pipeline
    from whence.text.tokenizer import TreebankTokenizer
    from whence.text.vocabulary import Vocabulary

FILES = ("config.json", "model.safetensors", "vocabulary.txt")
FOLDER = Path(tempfile.mkdtemp())
VOCABULARY = Vocabulary(["good", "bad"])
torch.manual_seed(0)
Pipeline(
    RecurrentClassifier(Architecture(3, 2, "lstm", 2, 2)), TreebankTokenizer(), VOCABULARY, ("no", "yes")
).save(FOLDER)  # fmt: skip
SAVED = {name: (FOLDER / name).read_bytes() for name in FILES}
TOKENIZER = TreebankTokenizer()


def tree(text: str) -> None:
    """A line is a tree or an error."""
    try:
        found = parse_tree(text)
    except DataError:
        return
    assert found.spans[0][:2] == (0, len(found.tokens))


def tokens(text: str) -> None:
    """The tokens and the spaces between them are the text."""
    place = 0
    for token in TOKENIZER.tokens(text):
        assert place <= token.start < token.end <= len(text)
        assert not text[place : token.start].strip()
        place = token.end
    assert not text[place:].strip()


def model(name: str, content: bytes) -> None:
    """A pipeline with one file replaced is loaded or refused."""
    (FOLDER / name).write_bytes(content)
    try:
        load_pipeline(FOLDER)
    except ModelError:
        pass
    finally:
        (FOLDER / name).write_bytes(SAVED[name])


def one(data: bytes) -> None:
    """The first byte says what the others are for."""
    kind, rest = (data[0] if data else 0), data[1:]
    text = rest.decode("utf-8", errors="surrogatepass" if kind & 64 else "replace") if kind % 64 else ""
    if kind % 64 == 0:  # the slow one, less often
        name = FILES[kind // 64 % 3]
        saved = SAVED[name]
        place = len(rest) and rest[0] * 4 % len(saved)
        model(name, saved[:place] + rest[1:] + saved[place + len(rest[1:]) :])
    elif kind % 2:
        tree(text)
    else:
        tokens(text)


def safe(data: bytes) -> None:
    """Bytes that are no text at all are nobody's fault."""
    with contextlib.suppress(UnicodeDecodeError):
        one(data)


if __name__ == "__main__":
    atheris.Setup(sys.argv, safe)  # pyright: ignore
    atheris.Fuzz()  # pyright: ignore
