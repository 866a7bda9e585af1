"""Vocabularies: which id is whose, what stands for unknown words, and lists that are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from whence.errors import InputError, ModelError
from whence.models.bundled import NAMES, directory, load
from whence.text.vocabulary import UNKNOWN, Vocabulary

OWN = ["<pad>", "<unk>", "good", "bad"]


def test_without_more_the_unknown_word_is_first() -> None:
    vocabulary = Vocabulary(["good", "bad", "good"])
    assert vocabulary.tokens == (UNKNOWN, "good", "bad")
    assert (vocabulary.unknown, vocabulary.padding, vocabulary.filler, len(vocabulary)) == (0, None, 0, 3)
    assert vocabulary.ids(["bad", "zebra"]) == [2, 0]
    assert Vocabulary(vocabulary.tokens).tokens == vocabulary.tokens


@pytest.mark.parametrize(("unknown", "padding"), [("<unk>", "<pad>"), (1, 0), (np.int64(1), np.int32(0))])
def test_with_unknown_and_padding_ids_are_positions(unknown: Any, padding: Any) -> None:
    vocabulary = Vocabulary(OWN, unknown=unknown, padding=padding)
    assert vocabulary.tokens == tuple(OWN)
    assert (vocabulary.unknown, vocabulary.padding, vocabulary.filler, len(vocabulary)) == (1, 0, 0, 4)
    assert vocabulary.ids(["good", "zebra", "<pad>"]) == [2, 1, 0]


def test_padding_behind_the_words() -> None:
    vocabulary = Vocabulary(["good", "[PAD]"], padding="[PAD]", unknown=None)
    assert (vocabulary.filler, vocabulary.unknown) == (1, None)


def test_a_dict_of_ids_may_have_gaps() -> None:
    ids = {"good": 5, "bad": 3}
    for vocabulary in (Vocabulary(ids, unknown=2, padding=0), Vocabulary.from_ids(ids, unknown=2, padding=0)):
        assert vocabulary.tokens == ("bad", "good")
        assert (vocabulary.unknown, vocabulary.padding, len(vocabulary)) == (2, 0, 6)
        assert vocabulary.ids(["good", "zebra"]) == [5, 2]
    assert len(Vocabulary(ids, unknown=9)) == 10
    assert "good" in Vocabulary(ids) and "zebra" not in Vocabulary(ids)


def test_without_an_unknown_word_a_text_with_one_is_refused() -> None:
    vocabulary = Vocabulary(["good", "bad"], unknown=None)
    assert vocabulary.ids(["bad", "good"]) == [1, 0]
    with pytest.raises(InputError, match="the word 'zebra' is not in the vocabulary, which has no word for unknown ones"):
        vocabulary.ids(["good", "zebra"])


def test_a_list_of_a_texts_words_may_hold_anything() -> None:
    vocabulary = Vocabulary(["good", "good", "<unk>", "<pad>"])
    assert vocabulary.tokens == (UNKNOWN, "good", "<unk>", "<pad>")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Vocabulary(OWN), "holds '<unk>' and '<pad>'; say .* with unknown='<unk>', padding='<pad>' "),
        (lambda: Vocabulary(["[PAD]", "good"]), r"holds '\[PAD\]'; say what it stands for with padding='\[PAD\]' \(None if"),
        (lambda: Vocabulary(["good", UNKNOWN]), "holds '<unknown>'"),
        (lambda: Vocabulary(["good", "<OOV>"]), "unknown='<OOV>'"),
        (lambda: Vocabulary(OWN, unknown="<unk>"), "holds '<pad>'; say what it stands for with padding='<pad>'"),
        (lambda: Vocabulary({"<unk>": 0, "good": 1}), "unknown='<unk>'"),
        (lambda: Vocabulary(OWN, unknown="<oov>", padding=0), "unknown is '<oov>', which is not in the vocabulary"),
        (lambda: Vocabulary(OWN, unknown=4, padding=0), "unknown is 4; give a word of the vocabulary, or an id from 0 to 3"),
        (lambda: Vocabulary(OWN, unknown=1, padding=-1), "padding is -1"),
        (lambda: Vocabulary(OWN, unknown=True, padding=0), "unknown is True"),
        (lambda: Vocabulary(["a", "b", "a"], unknown=None), "the word 'a' stands at 0 and at 2"),
        (lambda: Vocabulary({"a": 1, "b": 1}), "'a' and 'b' both have the id 1"),
        (lambda: Vocabulary({"a": -1}), "the id of 'a' is -1; give a whole number from 0"),
        (lambda: Vocabulary({"a": 10**9}), "the id of 'a' is 1000000000"),
        (lambda: Vocabulary(cast(Any, {"a": 1.0})), "the id of 'a' is 1.0"),
        (lambda: Vocabulary(cast(Any, [b"good"])), "word 0 of the vocabulary is a bytes"),
        (lambda: Vocabulary.from_ids(cast(Any, ["a"])), "ids is a list; give a dict"),
        (lambda: Vocabulary(["x" * 10**6, "x" * 10**6], unknown=None), "xxx"),
    ],
)
def test_words_whose_ids_would_be_wrong_are_refused(make: Callable[[], Vocabulary], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        make()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", NAMES)
def test_bundled_vocabularies_are_as_they_were(name: str, tmp_path: Path) -> None:
    pipeline = load(name)
    pipeline.save(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (directory(name) / path.name).read_bytes()
    vocabulary = pipeline.vocabulary
    assert vocabulary.is_plain and vocabulary.tokens[0] == UNKNOWN and vocabulary.unknown == 0
    assert vocabulary.ids(vocabulary.tokens) == list(range(len(vocabulary)))
