"""Treebank words as ordinary text: the rules of NLTK's `TreebankWordDetokenizer`, which take spaces away.

The order of the rules matters: each one sees what those before it have joined.
"""

import re
from collections.abc import Sequence

from whence.text.treebank import WHITE, is_word_character

_NAMES = {"-lrb-": "(", "-rrb-": ")"}
_I = "(?-i:[iIİ])"  # what `regex`, which NLTK uses, takes for an i in any case; `re` takes ı too
_IT = tuple(re.compile(rf"(?i) ('t)[{WHITE}]({word})") for word in (f"{_I}s", "was"))
_CONTRACTION = re.compile(
    rf"(?i)(can(?=.not)|d(?=.'ye)|g{_I}m(?=.me)|gon(?=.na)|got(?=.ta)|lem(?=.me)|more(?=.'n)|wan(?=.na[{WHITE}]))"
    rf"[{WHITE}](not|'ye|me|na|ta|'n)",
    re.DOTALL,
)


def _rules(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern.replace(r"\s", f"[{WHITE}]")), joined) for pattern, joined in rules)


_ENDINGS = _rules(
    (r"([^' ])\s('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1\2 "),
    (r"([^' ])\s('[sSmMdD]?) ", r"\1\2 "),
    (rf"([^'{WHITE}])\s('')", r"\1\2"),
    (r"([,.;:!?'])\s+(\"|'')", r"\1\2"),
    (r"('')\s([.,:)\]>};%])", r"\1\2"),
    (r"''", '"'),
    (r"([,.;:!?])\"'", "\\1'\""),
)
_MARKS = _rules(
    (r" -- ", "--"),
    (r"([\[({<])\s", r"\1"),
    (r"\s([\])}>])", r"\1"),
    (r"([\])}>])\s([:;,.])", r"\1\2"),
    (r"([^'])\s'\s", r"\1' "),
    (r"\s([?!])", r"\1"),
    (r"([^.])\s(\.)(?!\.)([\])}>\"']*)", r"\1\2\3"),
    (r"([#$])\s", r"\1"),
    (r"\s([;%])", r"\1"),
    (r"\s\.\.\.\s", "..."),
    (r"\s([:,])", r"\1"),
    (r"([ (\[{<])\s``", r"\1``"),
    (r"(``)\s", r"\1"),
    (r"``", '"'),
)


def running_text(words: Sequence[str]) -> str:
    """Treebank words as ordinary text: "is n't" becomes "isn't", and brackets and quotes become what they stand for."""
    plain = [_NAMES.get(word.lower(), word).replace("\\/", "/").replace("\\*", "*") for word in words]
    text = f" {' '.join(plain)} "
    for pattern in (*_IT, _CONTRACTION):
        text = pattern.sub(_whole, text)
    for pattern, joined in _ENDINGS:
        text = pattern.sub(joined, text)
    text = text.strip()
    for pattern, joined in _MARKS:
        text = pattern.sub(joined, text)
    return text.strip()


def _whole(match: re.Match[str]) -> str:
    """The two halves of a contraction joined, unless they are parts of longer words."""
    text, start, end = match.string, match.start(1), match.end()
    is_part = is_word_character(text[start - 1 : start]) or is_word_character(text[end : end + 1])
    return match[0] if is_part else match[1] + match[2]
