"""The Stanford Sentiment Treebank: trees of labelled phrases, read from the official files."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from whence.cache import cache_home
from whence.errors import DataError

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")
SPLITS = {"train": 8544, "dev": 1101, "test": 2210}
OFFICIAL = "8ceec0edb1c455fde4bb538c1d0b24dc55f6af650a3956487e57bc67a12c22e7"  # the digest of the three published files
_PIECES = re.compile(r"[()]|[^() ]+")  # only the ASCII space separates words: some of them contain a no-break space


class Tree(NamedTuple):
    """A sentence and the label of every phrase in it; `spans` holds (start, end, label), the whole sentence first."""

    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int, int], ...]

    @property
    def label(self) -> int:
        """The label of the whole sentence, 0 (very negative) to 4 (very positive)."""
        return self.spans[0][2]

    def phrases(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Every labelled phrase, the whole sentence first."""
        for start, end, label in self.spans:
            yield self.tokens[start:end], label


def parse_tree(line: str) -> Tree:
    """Parse one tree, such as `(3 (2 It) (4 works))`. Words are lower-cased; escapes (`\\/`, `-lrb-`) are kept."""
    tokens: list[str] = []
    spans: list[list[int]] = []
    open_spans: list[list[int]] = []  # the spans that are not closed yet; an end of -2 marks one that holds a word
    expects_label = False
    for match in _PIECES.finditer(line.strip("\r\n ")):
        piece, column = match.group(), match.start() + 1
        if spans and not open_spans:
            raise DataError(f"column {column}: {_quoted(piece)} comes after the end of the tree")
        if expects_label:
            if len(piece) != 1 or piece not in "01234":
                raise DataError(
                    f"column {column}: {_quoted(piece)} is not a label; every phrase starts with a label from 0 to 4"
                )
            spans.append([len(tokens), -1, int(piece)])
            open_spans.append(spans[-1])
            expects_label = False
        elif piece == "(":
            if open_spans and open_spans[-1][1] == -2:
                raise DataError(f"column {column}: a phrase contains both a word and another phrase")
            expects_label = True
        elif piece == ")":
            span = open_spans.pop() if open_spans else None
            if span is None or span[0] == len(tokens):
                raise DataError(f"column {column}: ')' closes an empty phrase")
            span[1] = len(tokens)
        else:
            if not open_spans or open_spans[-1][0] != len(tokens) or open_spans[-1][1] == -2:
                raise DataError(f"column {column}: the word {_quoted(piece)} is not the only word of its phrase")
            tokens.append(piece.lower())
            open_spans[-1][1] = -2
    if expects_label or open_spans or not spans:
        raise DataError("the tree ends before its last ')'" if spans or expects_label else "the line has no tree")
    return Tree(tuple(tokens), tuple((start, end, label) for start, end, label in spans))


def _quoted(piece: str) -> str:
    return repr(piece) if len(piece) <= 100 else repr(f"{piece[:100]}…")


def read_trees(path: Path) -> list[Tree]:
    """All trees of a file, one per line. An error names the file and the line."""
    trees: list[Tree] = []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; an SST folder contains train.txt, dev.txt and test.txt") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); is it one of SST's tree files?") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                trees.append(parse_tree(line))
            except DataError as error:
                raise DataError(f"{path}, line {number}: {error}") from None
    if not trees:
        raise DataError(f"{path} has no trees")
    return trees


def read_split(directory: Path, split: str) -> list[Tree]:
    """The trees of "train", "dev" or "test"."""
    return read_trees(directory / f"{split}.txt")


def find_sst(directory: str | Path | None = None) -> Path:
    """The folder of SST's tree files: `directory`, else $WHENCE_SST, else the user's cache."""
    wanted = directory or os.environ.get("WHENCE_SST") or cached_sst()
    folder = Path(wanted)
    for place in (folder, folder / "trees"):
        if all((place / f"{split}.txt").is_file() for split in SPLITS):
            return place
    raise DataError(
        f"SST is not in {folder}: there should be train.txt, dev.txt and test.txt; run 'whence data sst' to download it, or "
        "give its folder by --sst or $WHENCE_SST"
    )


def cached_sst() -> Path:
    """The folder that `whence data sst` downloads into."""
    return cache_home() / "whence" / "sst"


def digest(directory: Path) -> str:
    """A hash of the three files together."""
    return hashlib.sha256(b"".join((directory / f"{split}.txt").read_bytes() for split in SPLITS)).hexdigest()
