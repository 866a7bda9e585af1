"""`Pipeline`: a tokenizer, a vocabulary, a module and class names, and the three files in which it is saved."""

import hashlib
import json
import re
import stat
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from whence.errors import ModelError
from whence.models.classifier import CELLS, Architecture, RecurrentClassifier
from whence.models.files import write_whole
from whence.models.quoting import quoted, shortened
from whence.text.tokenizer import TOKENIZERS, Tokenizer
from whence.text.vocabulary import UNKNOWN, Vocabulary

FILES = ("config.json", "model.safetensors", "vocabulary.txt")
LARGEST = 512 * 2**20  # bytes; a larger file is refused


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
    name: str = "your model"
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how it was trained, and how well it does

    def __post_init__(self) -> None:
        names = list(self.classes)
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ModelError(f"classes are {quoted(self.classes)}; give different names, one for each score")

    def save(self, directory: str | Path) -> None:
        """Write the pipeline's three files, each completely or not at all."""
        module = self.module
        if not isinstance(module, RecurrentClassifier):
            raise ModelError(f"a {type(module).__name__} cannot be saved; only a RecurrentClassifier can be built again")
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        config: Config = {
            "format": 1,
            "architecture": module.architecture.settings(),
            "classes": list(self.classes),
            "tokenizer": self.tokenizer.name,
            "training": dict(self.record),
        }
        weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()})
        try:
            vocabulary = "".join(f"{_escaped(token)}\n" for token in self.vocabulary.tokens).encode()
        except UnicodeEncodeError as error:
            raise ModelError(f"the vocabulary holds {error.object[error.start]!r}, which is no character") from None
        config["sha256"] = {"vocabulary.txt": _sha256(vocabulary), "model.safetensors": _sha256(weights)}
        write_whole(folder / "vocabulary.txt", vocabulary)
        write_whole(folder / "model.safetensors", weights)
        write_whole(folder / "config.json", (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode())


def load_pipeline(directory: str | Path, *, name: str | None = None) -> Pipeline:
    """Load a saved pipeline; files that do not belong together are refused."""
    folder = Path(directory)
    config_bytes, weight_bytes, vocabulary_bytes = (_read(folder / file) for file in FILES)
    try:
        config = json.loads(config_bytes)
        settings, classes, tokenizer = config["architecture"], config["classes"], config["tokenizer"]
        architecture = Architecture(**settings)
    except UnicodeDecodeError as error:
        raise ModelError(f"{folder / 'config.json'} is not {error.encoding} text (byte {error.start})") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{folder / 'config.json'} is no pipeline's: {shortened(repr(error))}") from None
    _require_sensible(folder, architecture, classes, tokenizer)
    vocabulary = _vocabulary(folder / "vocabulary.txt", vocabulary_bytes)
    if len(vocabulary) != architecture.vocabulary:
        raise ModelError(
            f"{folder / 'vocabulary.txt'} has {len(vocabulary)} tokens; config.json says {architecture.vocabulary}"
        )
    module = _empty(architecture)
    module.load_state_dict(_weights(folder / "model.safetensors", weight_bytes, module), assign=True)
    hashes = {"vocabulary.txt": _sha256(vocabulary_bytes), "model.safetensors": _sha256(weight_bytes)}
    if config.get("sha256", hashes) != hashes:
        raise ModelError(f"the files in {folder} do not belong together: one is not the one that config.json was written with")
    record = cast(dict[str, Any], config.get("training") or {})
    return Pipeline(module.eval(), TOKENIZERS[tokenizer](), vocabulary, tuple(classes), name or folder.name, record)


def _empty(architecture: Architecture) -> RecurrentClassifier:
    """A classifier whose weights are still to be loaded."""
    with torch.device("meta"):
        vectors = torch.empty(
            architecture.vocabulary, architecture.embedding
        )  # initialising random ones would import torch._dynamo, which takes 1 s
        return RecurrentClassifier(architecture, vectors=vectors)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise ModelError(f"{path} is no ordinary file; a saved pipeline holds {', '.join(FILES)}")
        if size > LARGEST:
            raise ModelError(f"{path} has {size} bytes; a pipeline's file has at most {LARGEST}")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"{path} does not exist; a saved pipeline holds {', '.join(FILES)}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}") from None


def _require_sensible(folder: Path, architecture: Architecture, classes: object, tokenizer: object) -> None:
    sizes = {"vocabulary": 10**7, "classes": 10**4, "embedding": 10**4, "hidden": 10**4}
    for name, largest in sizes.items():
        size = getattr(architecture, name)
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= largest:
            raise ModelError(
                f"{folder / 'config.json'}: {name} is {quoted(size)}; it must be a whole number from 1 to {largest}"
            )
    if not isinstance(architecture.cell, str) or architecture.cell not in CELLS:
        raise ModelError(f"{folder / 'config.json'}: cell is {quoted(architecture.cell)}; known are {', '.join(CELLS)}")
    if not isinstance(tokenizer, str) or tokenizer not in TOKENIZERS:
        raise ModelError(f"{folder / 'config.json'}: tokenizer is {quoted(tokenizer)}; known are {', '.join(TOKENIZERS)}")
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


def _weights(path: Path, content: bytes, module: nn.Module) -> dict[str, Tensor]:
    """The weights; each must be there once, finite and of the module's shape."""
    expected = {name: tensor.shape for name, tensor in module.state_dict().items()}
    counts = Counter(_header_keys(path, content))
    wrong = sorted(name for name in {*counts, *expected} if counts[name] != 1 or name not in expected)
    if wrong:
        raise ModelError(f"{path} does not hold each weight of the architecture once: {shortened(', '.join(wrong))}")
    try:
        found = load(content)
    except Exception as error:
        raise ModelError(f"{path} is no safetensors file: {shortened(error)}") from None
    for name, tensor in found.items():
        if tensor.shape != expected[name] or not tensor.is_floating_point():
            raise ModelError(
                f"{path}: {name} is {tuple(tensor.shape)} {tensor.dtype}; it must be {tuple(expected[name])} floats"
            )
        if not bool(tensor.float().isfinite().all()):
            raise ModelError(f"{path}: {name} holds numbers that are not finite")
    return {name: tensor.float() for name, tensor in found.items()}


def _header_keys(path: Path, content: bytes) -> list[str]:
    """The names in a safetensors header with duplicates, which the library's own reader ignores."""
    try:
        (size,) = struct.unpack_from("<Q", content)
        if size > len(content) - 8:
            raise ValueError("its header is longer than the file")
        keys: list[str] = []

        def top(pairs: list[tuple[str, object]]) -> dict[str, object]:
            keys[:] = [key for key, _ in pairs if key != "__metadata__"]  # the outermost object is parsed last
            return dict(pairs)

        json.loads(content[8 : 8 + size], object_pairs_hook=top)
        return keys
    except (struct.error, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is no safetensors file: {shortened(error)}") from None


def fingerprint(pipeline: Pipeline) -> str:
    """A hash of the weights, which identifies the model in results."""
    digest = hashlib.sha256()
    for name, tensor in sorted(pipeline.module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
