"""Texts are split into sentences; nothing but white space is left out."""

from itertools import pairwise
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.data.sst import read_split
from whence.text.running import running_text
from whence.text.sentences import sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "expected",
    [
        "It is good.|See it!",
        "a film .|it is good .|-lrb- yes . -rrb-|`` wow ! ''|The end ? !|no",
        "great film.|loved it!|would i see it again?|yes",
        "Mr. Smith and Dr. A. B. Doe left.|Prof. X stayed.",
        "It has 3.5 stars.|Or 4.5.|See www.example.com.|Fine.",
        "The U.S. Army has a Ph.D. student, e.g. him, i.e. you, etc. and so on.|It closed at 5 p.m.|He left, etc.|So did I",
        "It is No. 5.|He said no.|See fig. 2 and pp. 3–4.",
        'He said "No."|Then "Why?" he asked.|"It is good."|She left (really.)|Fine.',
        "«Oui.»|« Non. »|“Fin.”|»Das ist gut.«|„Ja.“|nein",
        "Well ... it is good...|Or not…|Is it?!|... And . . . so on.|Yes!!!|Wait… what?",
        "好。|坏！|真的？|「是。」|完",
        "क्या?|हाँ।|ठीक है।",
        "1. First point\n|2. Second.|Two\n|- one\n|* two.\n|A line\nthat goes on",
        "A title\n\n|A paragraph.\r\n\r\n|another\f|one",
        "Yahoo!, he said.|one word",
        "no end mark, at all; none: nowhere",
    ],
)
def test_where_sentences_end(expected: str) -> None:
    parts = expected.split("|")
    assert sentences(" ".join(parts)) == [part.strip() for part in parts]


def test_a_full_width_stop_needs_no_space_behind_it() -> None:
    assert sentences("好。坏！真的？「是。」完") == ["好。", "坏！", "真的？", "「是。」", "完"]


def test_nothing_has_no_sentences() -> None:
    assert sentence_spans("") == sentence_spans(" \n\t \r\n\n ") == []
    assert sentences("\ufeffA film.\r\nFine.") == ["\ufeffA film.", "Fine."]


@settings(max_examples=500)
@given(st.one_of(st.text(), st.text(alphabet="aB1 .!?…。\"'()`\n\r-,»")))
def test_only_white_space_lies_between_sentences(text: str) -> None:
    spans = sentence_spans(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    edges = [0, *(place for span in spans for place in span), len(text)]
    assert not "".join(text[edges[n] : edges[n + 1]] for n in range(0, len(edges), 2)).strip()


@pytest.mark.parametrize("piece", [".", ". ", "\n", "a. ", '."', "! '' ", ".\n", "\n ", "(", "'", "Mr. ", "1.\n"])
def test_long_texts_take_linear_time(piece: str) -> None:
    start = perf_counter()
    sentence_spans(piece * 50_000)
    assert perf_counter() - start < 5  # 0.1 s; minutes if it were quadratic


def test_the_treebanks_sentences_are_found_again(sst: Path) -> None:
    trees = [tree for tree in read_split(sst, "dev") if tree.tokens[-1] in (".", "?", "!")]
    tokenised = [" ".join(tree.tokens) for tree in trees]
    running = [running_text(tree.tokens) for tree in trees]
    for texts in (tokenised, running, [text.capitalize() for text in running]):
        found = set(sentences(" ".join(texts)))
        assert sum(each in found for each in texts) / len(trees) > 0.99  # the others hold a mark in their middle
