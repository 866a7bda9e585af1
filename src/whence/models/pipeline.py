"""`Pipeline`: a tokenizer, a vocabulary, a module and class names, and the files in which it is saved."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import torch
from torch import nn

from whence.errors import ModelError
from whence.models.architectures import architecture_of, require_no_module, restored
from whence.models.classifier import CELLS, Architecture, RecurrentClassifier
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
from whence.models.tokenizers import loaded_tokenizer, require_distinct, saved_tokenizer, tokenizer_files
from whence.quoting import quoted
from whence.text.given import tokenizer_of
from whence.text.huggingface import HuggingFaceTokenizer
from whence.text.padded import PaddedTokenizer, padding_word
from whence.text.tokenizer import Tokenizer
from whence.text.vocabulary import Vocabulary

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
    architecture: dict[str, Any]
    classes: list[str]
    tokenizer: str
    unknown: NotRequired[int | None]
    padding: NotRequired[int | None]
    padded: NotRequired[dict[str, Any]]
    training: dict[str, Any]
    sha256: NotRequired[dict[str, str]]


@dataclass(frozen=True, eq=False, init=False)
class Pipeline:
    """Everything from a text to its scores (logits).

    The module takes token ids (B, T), and the lengths (B,) of the texts if its forward has a parameter `lengths`.

    The tokenizer is one of whence's, a `tokenizers.Tokenizer`, a fast tokenizer of `transformers`, a spaCy language, or a
    function from a text to (start, end) spans, to words, or to (start, end, word). Tokenizers of the first two libraries bring
    their own ids and need no vocabulary.
    """

    module: nn.Module
    tokenizer: Tokenizer
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    name: str
    record: Mapping[str, Any]  # how it was trained, and how well it does

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Tokenizer | Callable[[str], object] | object,
        vocabulary: Vocabulary | Mapping[str, int] | None,
        classes: Sequence[str],
        name: str = UNNAMED,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        names = tuple(classes)
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise ModelError(f"classes are {quoted(classes)}; give different names, one for each score")
        taken = [name for name in names if name in RESERVED]
        if taken:
            raise ModelError(
                f"a class is called {quoted(taken[0])}, which means something else as a target; give it another name"
            )
        own = tokenizer_of(tokenizer)
        fields = {"module": module, "tokenizer": own, "vocabulary": _vocabulary_of(own, vocabulary)}
        for field, value in {**fields, "classes": names, "name": name, "record": record or {}}.items():
            object.__setattr__(self, field, value)

    def ids(self, text: str) -> list[int]:
        """The ids that the model reads for a text: of its tokens as the vocabulary spells them, such as `` for an opening "."""
        return self.vocabulary.ids([token.form for token in self.tokenizer.tokens(text)])

    def save(self, directory: str | Path) -> None:
        """Write the pipeline's files, each completely or not at all; no code is written, only weights, words and settings.

        To load it again, `whence.load` needs `module=` for a module of your own, and `tokenizer=` for a function.
        """
        module = self.module
        is_known = type(module) is RecurrentClassifier
        tokenizer, files = saved_tokenizer(self.tokenizer, self.vocabulary)
        config: dict[str, object] = {
            "format": 1,
            "architecture": module.architecture.settings() if is_known else architecture_of(module),
            "classes": list(self.classes),
            **tokenizer,
            "training": dict(self.record),
        }
        write_files(Path(directory), config, {**files, "model.safetensors": weight_bytes(module)})


def _vocabulary_of(tokenizer: Tokenizer, given: object) -> Vocabulary:
    """The vocabulary that belongs to a tokenizer: its own, or the given one."""
    if isinstance(tokenizer, HuggingFaceTokenizer):
        if given is not None and given is not tokenizer.vocabulary:
            raise ModelError("the tokenizer brings its own ids; give vocabulary=None")
        return tokenizer.vocabulary
    if isinstance(given, Mapping):
        given = Vocabulary(cast(Mapping[str, int], given))
    if given is None:
        raise ModelError("vocabulary is None, and the tokenizer has no ids of its own; give a Vocabulary of its words")
    if not isinstance(given, Vocabulary):
        raise ModelError(f"vocabulary is a {type(given).__name__}; give a Vocabulary, or a dict from words to ids")
    if isinstance(tokenizer, PaddedTokenizer) and tokenizer.token != padding_word(given):
        raise ModelError(
            f"texts are padded with {quoted(tokenizer.token)}, and the vocabulary's word for padding is "
            f"{quoted(padding_word(given))}; both must be the same: Vocabulary(words, padding={quoted(tokenizer.token)})"
        )
    return given


def load_pipeline(
    directory: str | Path, *, name: str | None = None, module: nn.Module | None = None, tokenizer: object = None
) -> Pipeline:
    """Load a saved pipeline; files that do not belong together are refused."""
    folder = Path(directory)
    path = folder / "config.json"
    (config_bytes,) = read_files(folder, ["config.json"], kind="pipeline")
    config = read_config(path, config_bytes, kind="pipeline")
    with refusing(path, kind="pipeline"):
        settings, classes = dict(config["architecture"]), require_distinct(path, config["classes"])
        expected = ["model.safetensors", *tokenizer_files(path, config["tokenizer"])]
        architecture = Architecture(**settings) if "kind" not in settings else None
    if architecture is not None:
        _require_sensible(path, architecture, classes)
    files = dict(zip(expected, read_files(folder, expected, kind="pipeline"), strict=True))
    own, vocabulary = loaded_tokenizer(folder, config, files, given=tokenizer)
    weights = files["model.safetensors"]
    if architecture is None:
        require_hashes(folder, config, files)
        found = restored(folder, settings, weights, given=module, kind="pipeline")
    else:
        require_no_module(folder, module)
        _require_size(folder, own, vocabulary, architecture)
        found = _empty(architecture)
        load_weights(found, folder / "model.safetensors", weights)
        require_hashes(folder, config, files)
    record = cast(dict[str, Any], config.get("training") or {})
    return Pipeline(found.eval(), own, vocabulary, classes, name or folder.name, record)


def _empty(architecture: Architecture) -> RecurrentClassifier:
    """A classifier whose weights are still to be loaded."""
    with torch.device("meta"):
        vectors = torch.empty(
            architecture.vocabulary, architecture.embedding
        )  # initialising random ones would import torch._dynamo, which takes 1 s
        return RecurrentClassifier(architecture, vectors=vectors)


def _require_sensible(path: Path, architecture: Architecture, classes: Sequence[str]) -> None:
    for name, largest in {"vocabulary": 10**7, "classes": 10**4, "embedding": 10**4, "hidden": 10**4}.items():
        require_size(path, name, getattr(architecture, name), largest=largest)
    require_known(path, "cell", architecture.cell, CELLS)
    if len(classes) != architecture.classes:
        raise ModelError(f"{path} names {len(classes)} classes for {architecture.classes} scores")


def _require_size(folder: Path, tokenizer: Tokenizer, vocabulary: Vocabulary, architecture: Architecture) -> None:
    """Refuse words that do not fit the embedding; a tokenizer with its own ids may have some that texts never use."""
    if isinstance(tokenizer, HuggingFaceTokenizer):
        return
    words, rows = len(vocabulary), architecture.vocabulary
    if words > rows or (vocabulary.is_plain and words < rows):
        raise ModelError(f"{folder / 'vocabulary.txt'} has {words} tokens; config.json says {rows}")


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
