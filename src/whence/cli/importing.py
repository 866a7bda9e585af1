"""`whence import`: a model of Keras or ONNX as the folder of a saved model."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.errors import InputError
from whence.render.colour import one_line

if TYPE_CHECKING:
    from whence.text.vocabulary import Vocabulary


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
        typer.Option(help="For texts: a file with a word a line, in the order of their ids, or JSON with words and ids."),
    ] = None,
    unknown: Annotated[str | None, typer.Option(help="The word, or the id, that stands for unknown words.")] = None,
    padding: Annotated[str | None, typer.Option(help="The word, or the id, that fills up short texts.")] = None,
    tokenizer: Annotated[
        str, typer.Option(help="For texts: treebank, characters, or a tokenizer.json that brings its own ids.")
    ] = "treebank",
    features: Annotated[str | None, typer.Option(help="For series: the names of the features, separated by commas.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="An .npz file with the arrays inputs and outputs, which the model must give.")
    ] = None,
) -> None:
    """Make a folder that whence loads out of a model of another framework: one of texts with --vocabulary, else of series."""
    from whence.models.files import require_folder

    is_text = vocabulary is not None or tokenizer.endswith(".json")
    if is_text and classes is None:
        raise InputError("a model of texts needs the names of its classes; give them by --classes, separated by commas")
    if is_text and features is not None:
        raise InputError("--features are those of a model of series; leave it out, or leave out --vocabulary")
    require_folder(output, lambda name: name in ("config.json", "model.safetensors", "vocabulary.txt", "example.csv"))
    words = None if vocabulary is None else _vocabulary(vocabulary, unknown, padding)
    given = None if reference is None else _reference(reference)
    from torch import nn

    import whence

    module = (whence.from_keras if framework == Framework.keras else whence.from_onnx)(file, reference=given)
    if not is_text and any(isinstance(each, nn.Embedding) for each in module.modules()):
        raise InputError(f"{file} reads the ids of words; give --vocabulary and --classes")
    name = file.stem
    if is_text:
        whence.Pipeline(module, _tokenizer(tokenizer), words, _names(classes), name=name).save(output)
    else:
        whence.SeriesModel(module, _names(features), _names(classes), name=name).save(output)
    print(f"{one_line(str(output))}: {'texts' if is_text else 'series'}, inputs {one_line(', '.join(module.inputs))}")
    print(one_line(module.proof))


def _names(written: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in written.split(",")) if written else ()


def _tokenizer(written: str) -> Any:
    from whence.text.tokenizer import TOKENIZERS

    if written in TOKENIZERS:
        return TOKENIZERS[written]()
    if not written.endswith(".json"):
        raise InputError(f"there is no tokenizer {written!r}; give {', '.join(TOKENIZERS)}, or a tokenizer.json")
    try:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(written)
    except ImportError:
        raise InputError("a tokenizer.json needs tokenizers; run: pip install tokenizers") from None
    except Exception as error:
        raise InputError(f"{written} cannot be read as a tokenizer: {str(error)[:200]}") from None


def _vocabulary(path: Path, unknown: str | None, padding: str | None) -> "Vocabulary":
    """The words of a file with their ids, as a list of lines or as JSON."""
    from whence.text.vocabulary import Vocabulary

    try:
        text = path.read_text(encoding="utf-8-sig")
        words: Any = json.loads(text) if path.suffix == ".json" else text.splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no vocabulary: {str(error)[:100]}") from None
    named = {key: int(each) if each.isdecimal() else each for key, each in (("unknown", unknown), ("padding", padding)) if each}
    return Vocabulary(words, **named)


def _reference(path: Path) -> tuple[Any, Any]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["inputs"], arrays["outputs"]
    except KeyError:
        raise InputError(f"{path} must hold the arrays inputs and outputs") from None
    except Exception as error:
        raise InputError(f"{path} is no .npz file of arrays: {str(error)[:100]}") from None
