"""How a pipeline's tokenizer and vocabulary are saved: by name, as files without any code, or not at all, if they are code."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from whence.errors import ModelError
from whence.models.saved import refusing
from whence.quoting import quoted, shortened
from whence.text.given import tokenizer_of
from whence.text.huggingface import HuggingFaceTokenizer, without_panic
from whence.text.padded import PaddedTokenizer, padded_by
from whence.text.spacy_rules import LARGEST_RULES, SpacyTokenizer, spacy_from
from whence.text.tokenizer import TOKENIZERS, Tokenizer
from whence.text.vocabulary import LARGEST_ID, UNKNOWN, Vocabulary

OWN, OWN_IDS = "own", "own-ids"  # tokenizers that the user gives at loading: with a vocabulary, and with ids of their own
FILES = {"tokenizers": "tokenizer.json", "spacy": "spacy.json"}  # of tokenizers that have one
KNOWN = (*TOKENIZERS, *FILES, OWN, OWN_IDS)
LARGEST_TOKENIZER = 2**26  # bytes of tokenizer.json
_HOLE = "\\"  # the line of an id without a word; no word is escaped to it


def saved_tokenizer(tokenizer: Tokenizer, vocabulary: Vocabulary) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What config.json says about a tokenizer and its vocabulary, and their files."""
    if isinstance(tokenizer, PaddedTokenizer):
        config, files = saved_tokenizer(tokenizer.tokenizer, vocabulary)
        return {**config, "padded": tokenizer.settings()}, files
    name, files = _kind(tokenizer)
    config: dict[str, Any] = {"tokenizer": name}
    if not isinstance(tokenizer, HuggingFaceTokenizer):
        files["vocabulary.txt"] = _encoded("the vocabulary", "".join(f"{line}\n" for line in _lines(vocabulary)))
    if isinstance(tokenizer, HuggingFaceTokenizer) or not vocabulary.is_plain:
        config |= {"unknown": vocabulary.unknown, "padding": vocabulary.padding}
    return config, files


def _kind(tokenizer: Tokenizer) -> tuple[str, dict[str, bytes]]:
    """A tokenizer's name in config.json, and its file if it has one."""
    if type(tokenizer) in TOKENIZERS.values():
        return tokenizer.name, {}
    if isinstance(tokenizer, (HuggingFaceTokenizer, SpacyTokenizer)):
        try:
            return tokenizer.name, {FILES[tokenizer.name]: _encoded("the tokenizer", tokenizer.content())}
        except ModelError:  # a part of it is code of the user's
            return OWN_IDS if isinstance(tokenizer, HuggingFaceTokenizer) else OWN, {}
    return OWN, {}


def tokenizer_files(path: Path, name: object) -> list[str]:
    """The files of a tokenizer that config.json names, and of its vocabulary."""
    if not isinstance(name, str) or name not in KNOWN:
        raise ModelError(f"{path}: tokenizer is {quoted(name)}; known are {', '.join(KNOWN)}")
    own = [FILES[name]] if name in FILES else []
    return own if name in ("tokenizers", OWN_IDS) else [*own, "vocabulary.txt"]


def loaded_tokenizer(
    folder: Path, config: Mapping[str, Any], files: Mapping[str, bytes], *, given: object
) -> tuple[Tokenizer, Vocabulary]:
    """The tokenizer and the vocabulary of a folder; `given` is the user's tokenizer, for a folder saved with one."""
    name = cast(str, config["tokenizer"])
    tokenizer = _given(folder, name, given) if name in (OWN, OWN_IDS) else _saved(folder, name, config, files, given)
    has_ids = isinstance(tokenizer, HuggingFaceTokenizer)
    vocabulary = tokenizer.vocabulary if has_ids else _vocabulary(folder, config, files["vocabulary.txt"])
    if "padded" not in config:
        return tokenizer, vocabulary
    try:
        return padded_by(config["padded"], tokenizer, vocabulary), vocabulary
    except ModelError as error:
        raise ModelError(f"{folder / 'config.json'}: {error}") from None


def _given(folder: Path, name: str, given: object) -> Tokenizer:
    if given is None:
        raise ModelError(
            f"{folder} was saved with a tokenizer of your own, which is code and not in it; "
            "give it: whence.load(folder, tokenizer=…), or to a command by --model package.module:factory, a function that "
            "returns the pipeline"
        )
    tokenizer = tokenizer_of(given)
    if isinstance(tokenizer, PaddedTokenizer):
        raise ModelError(
            f"the given tokenizer pads texts; config.json of {folder} says how they are padded, so give its own one"
        )
    if isinstance(tokenizer, HuggingFaceTokenizer) != (name == OWN_IDS):
        wanted = "that brings its ids" if name == OWN_IDS else "without ids of its own: they are in vocabulary.txt"
        raise ModelError(f"the given tokenizer is a {type(given).__name__}; {folder} was saved with one {wanted}")
    return tokenizer


def _saved(folder: Path, name: str, config: Mapping[str, Any], files: Mapping[str, bytes], given: object) -> Tokenizer:
    if given is not None:
        raise ModelError(
            f"{folder} holds its tokenizer ({name}); leave out tokenizer=, which is for folders saved with one of your own; to "
            "use another one: whence.Pipeline(found.module, tokenizer, found.vocabulary, found.classes), with "
            "found = whence.load(folder)"
        )
    if name in TOKENIZERS:
        return TOKENIZERS[name]()
    path, content = folder / FILES[name], files[FILES[name]]
    largest = LARGEST_TOKENIZER if name == "tokenizers" else LARGEST_RULES
    with refusing(path, kind="tokenizer"):
        if len(content) > largest:
            raise ValueError(f"it has {len(content)} bytes; at most {largest} are read")
        text = content.decode("utf-8")
    if name == "tokenizers":
        return _huggingface(folder, path, config, text)
    with refusing(path, kind="tokenizer"):
        try:
            return spacy_from(text)
        except (AttributeError, re.error, OverflowError) as error:
            raise ValueError(str(error)) from None


def _huggingface(folder: Path, path: Path, config: Mapping[str, Any], text: str) -> HuggingFaceTokenizer:
    try:
        from tokenizers import Tokenizer as Foreign
    except ImportError:
        raise ModelError(f"{path} needs the package tokenizers; run: pip install tokenizers") from None

    def refusal(why: str) -> ModelError:
        return ModelError(f"{path} is no tokenizer's: {shortened(why)}")

    tokenizer = without_panic(lambda: Foreign.from_str(text), refusal)
    last = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    for name in ("unknown", "padding"):
        _require_id(folder, name, config.get(name), last)
    ids = {name: config.get(name) for name in ("unknown", "padding")}
    return cast(HuggingFaceTokenizer, without_panic(lambda: HuggingFaceTokenizer(tokenizer, **ids), refusal))


def _lines(vocabulary: Vocabulary) -> list[str]:
    """A line for every id: its word, without line breaks."""
    words = {cast(int, vocabulary.id(token)): token for token in vocabulary.tokens}
    return [_escaped(words[n]) if n in words else _HOLE for n in range(max(words, default=-1) + 1)]


def _vocabulary(folder: Path, config: Mapping[str, Any], content: bytes) -> Vocabulary:
    """The vocabulary in a file; where config.json names no ids, the first word stands for unknown ones."""
    path = folder / "vocabulary.txt"
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 text (byte {error.start})") from None
    words = {n: _unescaped(line) for n, line in enumerate(lines[:-1]) if line != _HOLE}
    is_plain = not {"unknown", "padding"} & config.keys()
    if lines[-1] or not words or len(set(words.values())) != len(words) or (is_plain and words.get(0) != UNKNOWN):
        raise ModelError(f"{path} must hold different tokens, one a line" + f", the first of them {UNKNOWN}" * is_plain)
    for name in ("unknown", "padding"):
        _require_id(folder, name, config.get(name), LARGEST_ID)
    unknown = 0 if is_plain else config.get("unknown")
    return Vocabulary.from_ids({word: n for n, word in words.items()}, unknown=unknown, padding=config.get("padding"))


def _require_id(folder: Path, name: str, given: object, largest: int) -> None:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= largest):
        raise ModelError(f"{folder / 'config.json'}: {name} is {quoted(given)}; it must be an id from 0 to {largest}, or null")


def _encoded(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ModelError(f"{what} holds {error.object[error.start]!r}, which is no character") from None


def _escaped(token: str) -> str:
    """A token without line breaks."""
    return token.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _unescaped(line: str) -> str:
    if "\\" not in line:
        return line
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), line)


def require_distinct(path: Path, classes: object) -> list[str]:
    """The names of classes in config.json; refuses any that are not different texts."""
    names = cast(Sequence[object], classes)
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ModelError(f"{path}: classes must be a list of different names")
    return cast(list[str], classes)
