"""`Pipeline`: a tokenizer, a vocabulary, a module and class names, and the three files in which it is saved."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import torch
from torch import nn

from whence.errors import ModelError
from whence.models.classifier import CELLS, Architecture, RecurrentClassifier
from whence.models.quoting import quoted
from whence.models.saved import (
    UNNAMED,
    load_weights,
    read_config,
    read_files,
    refusing,
    require_hashes,
    require_known,
    require_size,
    weight_bytes,
    write_files,
)
from whence.text.tokenizer import TOKENIZERS, Tokenizer
from whence.text.vocabulary import UNKNOWN, Vocabulary

FILES = ("config.json", "model.safetensors", "vocabulary.txt")


RESERVED = ("predicted", "all", "rest")  # targets that are not classes


def class_of(classes: Sequence[str], given: object) -> int | None:
    """The number of a class that is given by its name, in whatever letters if only one fits; None if there is none."""
    if given in classes:
        return classes.index(cast(str, given))
    folded = [name.casefold() for name in classes]
    return folded.index(str(given).casefold()) if folded.count(str(given).casefold()) == 1 else None


class Config(TypedDict):
    """The content of config.json."""

    format: int
    architecture: dict[str, int | str]
    classes: list[str]
    tokenizer: str
    training: dict[str, Any]
    sha256: NotRequired[dict[str, str]]


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Everything from a text to its scores (logits). The module takes token ids (B, T) and lengths (B,)."""

    module: nn.Module
    tokenizer: Tokenizer
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    name: str = UNNAMED
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how it was trained, and how well it does

    def __post_init__(self) -> None:
        names = list(self.classes)
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ModelError(f"classes are {quoted(self.classes)}; give different names, one for each score")
        taken = [name for name in names if name in RESERVED]
        if taken:
            raise ModelError(
                f"a class is called {quoted(taken[0])}, which means something else as a target; give it another name"
            )

    def save(self, directory: str | Path) -> None:
        """Write the pipeline's three files, each completely or not at all."""
        module = self.module
        if not isinstance(module, RecurrentClassifier):
            raise ModelError(f"a {type(module).__name__} cannot be saved; only a RecurrentClassifier can be built again")
        config: Config = {
            "format": 1,
            "architecture": module.architecture.settings(),
            "classes": list(self.classes),
            "tokenizer": self.tokenizer.name,
            "training": dict(self.record),
        }
        weights = weight_bytes(module)
        try:
            vocabulary = "".join(f"{_escaped(token)}\n" for token in self.vocabulary.tokens).encode()
        except UnicodeEncodeError as error:
            raise ModelError(f"the vocabulary holds {error.object[error.start]!r}, which is no character") from None
        write_files(Path(directory), {**config}, {"vocabulary.txt": vocabulary, "model.safetensors": weights})


def load_pipeline(directory: str | Path, *, name: str | None = None) -> Pipeline:
    """Load a saved pipeline; files that do not belong together are refused."""
    folder = Path(directory)
    config_bytes, weights, vocabulary_bytes = read_files(folder, FILES, kind="pipeline")
    config = read_config(folder / "config.json", config_bytes, kind="pipeline")
    with refusing(folder / "config.json", kind="pipeline"):
        settings, classes, tokenizer = config["architecture"], config["classes"], config["tokenizer"]
        architecture = Architecture(**settings)
    _require_sensible(folder, architecture, classes, tokenizer)
    vocabulary = _vocabulary(folder / "vocabulary.txt", vocabulary_bytes)
    if len(vocabulary) != architecture.vocabulary:
        raise ModelError(
            f"{folder / 'vocabulary.txt'} has {len(vocabulary)} tokens; config.json says {architecture.vocabulary}"
        )
    module = _empty(architecture)
    load_weights(module, folder / "model.safetensors", weights)
    require_hashes(folder, config, {"vocabulary.txt": vocabulary_bytes, "model.safetensors": weights})
    record = cast(dict[str, Any], config.get("training") or {})
    return Pipeline(module.eval(), TOKENIZERS[tokenizer](), vocabulary, tuple(classes), name or folder.name, record)


def _empty(architecture: Architecture) -> RecurrentClassifier:
    """A classifier whose weights are still to be loaded."""
    with torch.device("meta"):
        vectors = torch.empty(
            architecture.vocabulary, architecture.embedding
        )  # initialising random ones would import torch._dynamo, which takes 1 s
        return RecurrentClassifier(architecture, vectors=vectors)


def _require_sensible(folder: Path, architecture: Architecture, classes: object, tokenizer: object) -> None:
    for name, largest in {"vocabulary": 10**7, "classes": 10**4, "embedding": 10**4, "hidden": 10**4}.items():
        require_size(folder / "config.json", name, getattr(architecture, name), largest=largest)
    require_known(folder / "config.json", "cell", architecture.cell, CELLS)
    require_known(folder / "config.json", "tokenizer", tokenizer, TOKENIZERS)
    names = cast(Sequence[object], classes)
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ModelError(f"{folder / 'config.json'}: classes must be a list of different names")
    if len(names) != architecture.classes:
        raise ModelError(f"{folder / 'config.json'} names {len(names)} classes for {architecture.classes} scores")


def _escaped(token: str) -> str:
    """A token without line breaks."""
    return token.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescaped(line: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), line)


def _vocabulary(path: Path, content: bytes) -> Vocabulary:
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 text (byte {error.start})") from None
    tokens = [_unescaped(line) for line in lines[:-1]]
    if lines[-1] or not tokens or tokens[0] != UNKNOWN or len(set(tokens)) != len(tokens):
        raise ModelError(f"{path} must hold different tokens, one a line, the first of them {UNKNOWN}")
    return Vocabulary(tokens)


def fingerprint(pipeline: Pipeline) -> str:
    """A hash of the weights, which identifies the model in results."""
    return weights_hash(pipeline.module)


def weights_hash(module: nn.Module) -> str:
    """A hash of a module's weights and their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
