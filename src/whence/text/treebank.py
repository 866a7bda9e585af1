"""The Penn Treebank's words: the rules of NLTK's `NLTKWordTokenizer`, as a few substitutions that put spaces between words.

The order of the substitutions matters: each one sees the spaces of those before it. The tokenizer finds the words' positions.
"""

import re
import unicodedata

# NLTK uses the `regex` package, whose white space and word characters are not quite those of `re`.
WHITE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"  # for character classes
_CIRCLED_LETTERS = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_JOINERS = "\u200c\u200d"

_OPENING = re.compile("``|[`«„]")
_OPENING_QUOTE = re.compile(r"(?<=[ (\[{<])(?:\"|'')")
_APOSTROPHE = re.compile("'")
_CLITIC = re.compile("(?i:re|ve|ll|m|t|s|d|n)")
_CLOSING_END = re.compile(rf"[\])}}>\"'» ]*+[{WHITE}]*\Z")
_COMMA = re.compile(r"([:,])(\D|\Z)")  # takes the next character, so that of two commas the second goes with what follows it
_MARK = re.compile(r"\.{2,}|[;@#$%&\u2012-\u2015?!]")
_CLOSING_APOSTROPHE = re.compile("(?<=[^'])' ")
_BRACKET = re.compile(r"[*\[\](){}<>»]|--|''")
_OTHER_SPACE = re.compile(f"(?! )[{WHITE}]")
_SHORT_ENDING = re.compile("(?<=[^' ])'[sSmMdD]? ")
_LONG_ENDING = re.compile("(?<=[^' ])(?:'ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ")
_CONTRACTION = re.compile(
    r"(?i)\b(can(?=not)|d(?='ye)|gim(?=me)|gon(?=na)|got(?=ta)|lem(?=me)|more(?='n)|wan(?=na\s))(not|'ye|me|na|ta|'n)\b"
)
_IT_IS = re.compile(r"(?i) ('t)(is)\b")
_IT_WAS = re.compile(r"(?i) ('t)(was)\b")  # after the other: in 'tis'twas it needs the space that the other puts there


def words_of(sentence: str) -> list[str]:
    """The words of a sentence that has no line breaks and only plain quotes; double quotes become `` and ''."""
    text = _OPENING.sub(_apart, sentence)
    if text.startswith('"'):
        text = " `` " + text[1:]
    text = _OPENING_QUOTE.sub(" `` ", text)
    text = _APOSTROPHE.sub(_opening_apostrophe, text)
    text = _with_final_period_apart(text)
    text = _COMMA.sub(_comma_apart, text)
    text = _MARK.sub(_apart, text)
    text = _CLOSING_APOSTROPHE.sub(" ' ", text)
    text = _BRACKET.sub(_apart, text).replace('"', " '' ")
    text = _OTHER_SPACE.sub(" ", f" {text} ")
    text = _SHORT_ENDING.sub(_apart, text)
    text = _LONG_ENDING.sub(_apart, text)
    text = _CONTRACTION.sub(_pair_apart, text)
    text = _IT_IS.sub(_pair_apart, text)
    return _IT_WAS.sub(_pair_apart, text).split()


def is_word_character(character: str) -> bool:
    """Whether `regex` counts a character as part of a word: letters, marks, digits, connectors. The empty string is none."""
    if character.isascii():
        return character.isalnum() or character == "_"
    category = unicodedata.category(character)
    return (
        category[0] in "LM"
        or category in ("Nd", "Nl", "Pc")
        or character in _JOINERS
        or any(first <= ord(character) <= last for first, last in _CIRCLED_LETTERS)
    )


# Functions, because Python 3.11 takes several times as long for templates such as r" \g<0> ".
def _apart(match: re.Match[str]) -> str:
    return f" {match[0]} "


def _pair_apart(match: re.Match[str]) -> str:
    return f" {match[1]} {match[2]} "


def _comma_apart(match: re.Match[str]) -> str:
    return f" {match[1]} {match[2]}"


def _opening_apostrophe(match: re.Match[str]) -> str:
    """An apostrophe before a word, but not after one, is a quote and stands apart, unless it starts a clitic: 's, 'll."""
    text, start, end = match.string, match.start(), match.end()
    if is_word_character(text[start - 1 : start]) or not is_word_character(text[end : end + 1]):
        return "'"
    clitic = _CLITIC.match(text, end)
    return "'" if clitic and not is_word_character(text[clitic.end() : clitic.end() + 1]) else "' "


def _with_final_period_apart(text: str) -> str:
    """The last period apart from its word, if only closing marks and white space follow it."""
    place = text.rfind(".")
    if place < 1 or text[place - 1] == "." or not _CLOSING_END.match(text, place + 1):
        return text
    return f"{text[:place]} . {text[place + 1 :]}"
