"""`whence import`: a model of Keras or ONNX as the folder of a saved model."""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from whence.cli.padding import Padded, Side, length_of, padded_as, require_padding, told_of_padding
from whence.errors import InputError
from whence.quoting import shortened
from whence.render.colour import one_line

if TYPE_CHECKING:
    from torch import nn

    from whence.models.pipeline import Pipeline
    from whence.text.vocabulary import Vocabulary

FILES = ("config.json", "model.safetensors", "vocabulary.txt", "tokenizer.json", "example.csv")
MOST_DIGITS = 9  # of an id; a longer number is a word


class Framework(StrEnum):
    """Whose file it is."""

    keras = "keras"
    onnx = "onnx"


def import_model(
    framework: Annotated[Framework, typer.Argument(help="Whose file it is.")],
    file: Annotated[Path, typer.Argument(help="The model: .keras or .h5, or .onnx.")],
    output: Annotated[Path, typer.Option(help="The folder to write, which --model and whence.load take.")],
    classes: Annotated[str | None, typer.Option(help="The names of the classes, or outputs, separated by commas.")] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="For texts: a file with a word a line, in the order of their ids from 0 on, or .json with words and ids."
        ),
    ] = None,
    unknown: Annotated[str | None, typer.Option(help="The word, or the id, that stands for unknown words.")] = None,
    padding: Annotated[str | None, typer.Option(help="The word, or the id, that fills up short texts.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="For texts: treebank, keras, keras-layer, characters, or a tokenizer.json that brings its own ids.",
            show_default="treebank",
        ),
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help="For texts: the number of tokens that the model was trained on, padding included.")
    ] = None,
    pad: Annotated[Side | None, typer.Option(help="Where padding stands: before a short text, or after it.")] = None,
    cut: Annotated[
        Side | None,
        typer.Option(
            help="Which end of a longer text is cut off: what is before --length tokens, or after.", show_default="before"
        ),
    ] = None,
    features: Annotated[str | None, typer.Option(help="For series: the names of the features, separated by commas.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="An .npz file with the arrays inputs and outputs, which the model must give.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the model that the folder holds.")] = False,
) -> None:
    """Make a folder that whence loads out of a model of another framework: one of texts with --vocabulary, else of series."""
    from whence.models.files import require_folder

    brings_ids = tokenizer is not None and tokenizer.endswith(".json")
    is_text = vocabulary is not None or brings_ids
    _require_together(is_text, brings_ids, {"--vocabulary": vocabulary, "--unknown": unknown, "--padding": padding})
    if is_text and classes is None:
        raise InputError("a model of texts needs the names of its classes; give them by --classes, separated by commas")
    if is_text and features is not None:
        raise InputError("--features are those of a model of series; leave it out, or leave out --vocabulary")
    if not is_text and tokenizer is not None:
        raise InputError(f"the tokenizer {tokenizer} has no ids of its own; give the words and their ids by --vocabulary")
    padding_of = {"--length": length, "--pad": pad, "--cut": cut}
    require_padding(is_text, brings_ids, {name: each for name, each in padding_of.items() if each is not None})
    named, columns = _names("--classes", classes), _names("--features", features)
    require_folder(output, lambda name: name in FILES)
    if (output / "config.json").exists() and not replace:
        raise InputError(f"{output} holds a model already; give --replace to write over it, or another folder")
    words = None if vocabulary is None else _vocabulary(vocabulary, unknown, padding)
    splits = _tokenizer(tokenizer or "treebank") if is_text else None
    given = None if reference is None else _reference(reference)
    import whence

    module = (whence.from_keras if framework == Framework.keras else whence.from_onnx)(file, reference=given)
    _require_one_input(file, module.inputs)
    told: list[str] = []
    if is_text:
        padded = Padded(length_of(file, module, length), pad, cut or Side.before)
        pipeline = whence.Pipeline(module, *padded_as(file, splits, words, padded), named, name=file.stem)
        _require_texts(file, pipeline)
        pipeline.save(output)
        told = [_told_of_tokenizer(pipeline, tokenizer), told_of_padding(pipeline)]
        told += [] if words is None else _told_of_words(pipeline)
    else:
        _require_series(file, module)
        whence.SeriesModel(module, columns, named, name=file.stem).save(output)
    print(f"{one_line(str(output))}: {'texts' if is_text else 'series'}, inputs {one_line(', '.join(module.inputs))}")
    for line in (module.proof, *filter(None, told)):
        print(one_line(line))


def _require_together(is_text: bool, brings_ids: bool, given: dict[str, object]) -> None:
    """Refuse options for words where there are none, or where the tokenizer brings them."""
    named = [option for option, value in given.items() if value is not None]
    if brings_ids and named:
        raise InputError(f"the tokenizer brings its own words and ids; leave out {', '.join(named)}")
    if not is_text and named:
        raise InputError(f"{', '.join(named)}: these are words of a vocabulary; give it by --vocabulary")


def _told_of_tokenizer(pipeline: "Pipeline", given: str | None) -> str:
    """What splits the texts, in a sentence."""
    from whence.imports.keras import KerasModule

    is_open = given is None and isinstance(pipeline.module, KerasModule)
    more = "; if the model was trained with Keras' Tokenizer or TextVectorization, give --tokenizer keras or keras-layer"
    return f"texts are split by the tokenizer {given or pipeline.tokenizer.name}{more if is_open else ''}"


def _told_of_words(pipeline: "Pipeline") -> list[str]:
    """What may be wrong with a vocabulary, in sentences."""
    from torch import nn

    words, told = pipeline.vocabulary, list[str]()
    rows = next(each.num_embeddings for each in pipeline.module.modules() if isinstance(each, nn.Embedding))
    if len(words) < rows:
        told.append(
            f"the vocabulary has the ids 0 to {len(words) - 1}, and the embedding {rows} rows; if words for padding and for "
            "unknown ones are missing at its beginning, all other words are mixed up"
        )
    if words.unknown is None:
        told.append("a text with a word that is not in the vocabulary is refused; give the word for unknown ones by --unknown")
    return told


def _require_one_input(file: Path, inputs: Sequence[str]) -> None:
    if len(inputs) != 1:
        raise InputError(
            f"{file} takes {len(inputs)} inputs: {', '.join(inputs)}; a folder holds models of one input, "
            "the ids of words or a series; use whence.from_keras or whence.from_onnx, and whence.relevance"
        )


def _require_texts(file: Path, pipeline: "Pipeline") -> None:
    """Refuse a model that cannot be explained with these words and classes, before it is saved."""
    from whence._batches import embedding_of, scores_in
    from whence.errors import ModelError
    from whence.models.two_classes import is_single

    try:
        embedding_of(pipeline)
        scores = _scores(file, pipeline)
        if len(pipeline.classes) != 2 or not is_single(scores):
            scores_in(pipeline, scores, 1)
    except ModelError as error:
        raise InputError(f"{file} cannot be explained with these words and classes: {error}") from None


def _scores(file: Path, pipeline: "Pipeline") -> object:
    """What a module gives for a text of three words, or of as many as texts are padded to."""
    import torch

    from whence.text.padded import PaddedTokenizer

    tokenizer = pipeline.tokenizer
    length = tokenizer.length if isinstance(tokenizer, PaddedTokenizer) else 3
    try:
        with torch.no_grad():
            return pipeline.module(torch.zeros(1, length, dtype=torch.long))
    except Exception as error:
        raise InputError(
            f"{file} cannot read a text of {length} words; if it reads a fixed number of them, give that by --length: "
            f"{shortened(error)}"
        ) from None


def _require_series(file: Path, module: "nn.Module") -> None:
    from torch import nn

    if any(isinstance(each, nn.Embedding) for each in module.modules()):
        raise InputError(f"{file} reads the ids of words; give --vocabulary and --classes")


def _names(option: str, written: str | None) -> tuple[str, ...]:
    if written is None:
        return ()
    names = tuple(each.strip() for each in written.split(","))
    if "" in names or len(set(names)) != len(names):
        raise InputError(f"{option} is {written!r}; give different names, separated by commas")
    return names


def _tokenizer(written: str) -> Any:
    from whence.text.huggingface import without_panic
    from whence.text.tokenizer import TOKENIZERS

    if written in TOKENIZERS:
        return TOKENIZERS[written]()
    if not written.endswith(".json"):
        raise InputError(f"there is no tokenizer {written!r}; give {', '.join(TOKENIZERS)}, or a tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InputError("a tokenizer.json needs tokenizers; run: pip install tokenizers") from None
    return without_panic(
        lambda: Tokenizer.from_file(written), lambda reason: InputError(f"{written} cannot be read as a tokenizer: {reason}")
    )


def _vocabulary(path: Path, unknown: str | None, padding: str | None) -> "Vocabulary":
    """The words of a file with their ids: the lines in their order, or JSON."""
    from whence.text.vocabulary import Vocabulary

    try:
        text = path.read_text(encoding="utf-8-sig")
        found: object = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no vocabulary: {str(error)[:100]}") from None
    if not found or found == [""]:
        raise InputError(f"{path} is no vocabulary: it holds no word")
    if isinstance(found, list):
        found = _positions(path, cast("list[object]", found))
    if not isinstance(found, dict):
        raise InputError(f"{path} is no vocabulary: it must be an object of words and their ids, or a list of words")
    named = {"unknown": _word_or_id(unknown), "padding": _word_or_id(padding)}
    return Vocabulary(cast("dict[str, int]", found), **{key: each for key, each in named.items() if each is not None})


def _positions(path: Path, words: Sequence[object]) -> dict[object, int]:
    """Words with their places, from 0 on."""
    found: dict[object, int] = {}
    for n, word in enumerate(words):
        if not isinstance(word, str):
            raise InputError(f"{path} is no vocabulary: its word {n} is a {type(word).__name__}")
        if found.setdefault(word, n) != n:
            raise InputError(f"{path} holds the word {word[:80]!r} at {found[word]} and at {n}; each place is an id of its own")
    return found


def _word_or_id(written: str | None) -> str | int | None:
    is_id = written is not None and written.isdecimal() and len(written) <= MOST_DIGITS
    return int(written) if written is not None and is_id else written


def _reference(path: Path) -> tuple[Any, Any]:
    import numpy as np

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:  # numpy leaves a damaged file open
            return arrays["inputs"], arrays["outputs"]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or str(error)[:100]}") from None
    except KeyError:
        raise InputError(f"{path} must hold the arrays inputs and outputs") from None
    except Exception as error:
        raise InputError(f"{path} is no .npz file of arrays: {str(error)[:100]}") from None
