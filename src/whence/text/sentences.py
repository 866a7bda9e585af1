"""Sentences: where each one of a text starts and ends. Nothing but white space lies between them."""

import re

Span = tuple[int, int]

# Never the end of a sentence. The first ones, and initials, are all that the treebank's tokenizer knows.
TREEBANK_TITLES = ("Mr", "Ms", "Dr", "St", "Jr", "Mrs")
NOT_AFTER_A_TITLE = "".join(rf"(?<!\b{each}\.)" for each in (*TREEBANK_TITLES, "[A-Z]"))  # looks back from behind the period
_BEFORE_MORE = {*map(str.lower, TREEBANK_TITLES)} | set(
    "messrs mme mlle prof rev hon gen col capt cmdr maj lt sgt sen gov rep pres mt ft vs cf viz e.g i.e".split()
)
# The end of a sentence only if a capital letter follows.
_OFTEN_LAST = set(
    "etc inc ltd co corp bros sr al approx dept est a.m p.m jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_BEFORE_NUMBERS = set("no nos nr p pp fig figs vol vols ch sec eq art".split())

_FOREIGN = "。！？｡؟۔।॥"  # end a sentence, also without a space behind them
_CLOSING = "\"'”’“»«)\\]}」』）】》"
PARAGRAPH = re.compile(r"\n[^\S\n]*+\n|[\f\u2029]")  # an empty line, or what stands for one
_END = re.compile(
    rf"""
      (?P<paragraph> {PARAGRAPH.pattern} | \n(?=[^\S\n]*+(?:[-*•]|[0-9]{{1,3}}[.)])[^\S\n]) )
    | (?P<marks> [.!?…{_FOREIGN}]++ (?: \ [.!?](?![.…]) )*+ )
      (?P<closed> (?: [{_CLOSING}] | \ (?:''|-rrb-|[”»)\]])(?=\s|\Z) )*+ )
      (?P<gap> \s*+ )
      (?P<opening> (?: ``|''|-lrb-\ ?|[\"'“”‘«»„(\[{{¿¡「『（] )*+ )
      (?P<next> [^\W\d_] | [0-9] | [,;:] | )
    """,
    re.VERBOSE,
)
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")  # U.S, Ph.D
_LAST_WORD = re.compile(r"[^\s\"'“‘«(\[]*\Z")
_WINDOW = 16  # characters before a period in which an abbreviation is looked for


def sentence_spans(text: str) -> list[Span]:
    """The places (start, end) of a text's sentences, in order and without the white space around them.

    A sentence ends at an end mark (. ! ? … 。) with the quotes and brackets that close behind it, if white space and the start
    of another sentence follow; at an empty line; and before an item of a list. Abbreviations, initials, list numbers and "1.5"
    end none, nor do "..." and '!"' before a small letter. Marks may be words of their own, as in "a film . it is good .".

        [text[start:end] for start, end in sentence_spans("It's by J. Doe. See it!")]  # ["It's by J. Doe.", "See it!"]
    """
    found: list[Span] = []
    start = place = 0
    while match := _END.search(text, place):
        is_paragraph = match["paragraph"] is not None
        place = match.end() if is_paragraph else match.end("gap")
        if is_paragraph or _is_end(text, start, match):
            found.append((start, match.start() if is_paragraph else match.end("closed")))
            start = place
        if not is_paragraph and "\n" in match["gap"]:  # an empty line may stand in the gap
            place = match.end("closed")
    found.append((start, len(text)))
    return [span for span in (_stripped(text, *each) for each in found) if span[0] < span[1]]


def _is_end(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a sentence that began at `start` ends with these marks."""
    marks, following = match["marks"], match["next"]
    if match.start() == start:
        return False  # "... and so on": no word yet
    if match.end("gap") == len(text) or (marks[-1] in _FOREIGN and following not in (",", ";", ":")):
        return True
    if not match["gap"] or following in (",", ";", ":"):
        return False
    is_small = following.islower()
    if "!" in marks or "?" in marks:
        return not (is_small and match["closed"])
    if marks != ".":
        return not is_small  # an ellipsis
    return not _is_abbreviation(text, start, match.start(), is_small=is_small, is_number=following.isdigit())


def _is_abbreviation(text: str, start: int, period: int, *, is_small: bool, is_number: bool) -> bool:
    """Whether the period belongs to the word before it, given what follows: a small letter, a number, or something else."""
    last = _LAST_WORD.search(text, max(start, period - _WINDOW), period)
    word = last[0] if last else ""
    if not word:
        return False  # the mark is a word of its own
    folded = word.lower()
    is_first = not text[start : period - len(word)].strip() if period - start <= _WINDOW else False
    if folded in _BEFORE_MORE or (len(word) == 1 and word.isupper()) or (is_first and (word.isdigit() or len(word) == 1)):
        return True
    if folded in _OFTEN_LAST:
        return is_small or is_number
    return is_number if folded in _BEFORE_NUMBERS else _DOTTED.fullmatch(word) is not None


def _stripped(text: str, start: int, end: int) -> Span:
    """A span without the white space around it."""
    piece = text[start:end]
    inner = piece.lstrip()
    start += len(piece) - len(inner)
    return start, start + len(inner.rstrip())
