"""What Arras et al. (2017) printed: the numbers, the words and the sizes of their experiments."""

from typing import Literal, NamedTuple

FIVE_CLASSES = 0.463  # accuracy
TWO_CLASSES = 0.829  # positive against negative, neutral sentences left out
RANDOM_DEVIATION = 0.016  # an upper bound of the standard deviation over ten random runs

SENTENCES = 2210
DELETION_WORDS, DELETION_SENTENCES = 10, 1849  # the minimum length of a sentence in Fig. 3, and how many sentences have it
POSITION_WORDS, POSITION_SENTENCES = 19, 1104  # the same for Fig. 4
DELETIONS = 5
RANDOM_RUNS = 10
INTERVALS = 10
HEATMAPS = 21  # sentences in Fig. 1 and Fig. 2
EPSILON, DELTA = 0.001, 0.0  # LRP's settings


class Words(NamedTuple):
    """The ten most and the ten least relevant words."""

    most: tuple[str, ...]
    least: tuple[str, ...]


TABLE1 = {
    "sa": Words(
        tuple("broken-down wall execution lackadaisical milestone unreality soldier mournfully insight disorienting".split()),
        tuple("into what that a do of all ca in 's".split()),
    ),
    "lrp": Words(
        tuple("funnier charm polished gorgeous excellent screen honest wall confidence perfectly".split()),
        tuple("wrong n't forgettable shame little predictable overblown trying lacking nonsense".split()),
    ),
}

# The words whose colours the paper discusses under Fig. 1 and Fig. 2; the last two are its negators.
DISCUSSED = tuple(
    "waste horrible disaster repetitive difficult funny suspenseful romantic thrilling worthy entertaining must-see fails "
    "n't not".split()
)
NEGATORS = ("n't", "not")

# The sentences of Fig. 1 and Fig. 2 in their order, as lines of SST's test.txt, from 1 on.
LINES = (
    2089, 1322, 1486, 1417, 841, 2193, 1451, 2197, 1605, 1543, 1956, 1966, 1842, 645, 1166, 1724, 1675, 1898,
    851, 736, 860,
)  # fmt: skip
VERY_POSITIVE = (19, 20, 21)  # the numbers of the sentences with this label; the others are labelled very negative
REMEMBERED = (4, 7, 8, 10, 13, 15)  # as remembered from the printed figure; the text names words and class of all others

Colour = Literal["red", "blue"]


class Coloured(NamedTuple):
    """A word of a sentence of Fig. 2 and the colour that the text says LRP gives it; a negator stands before a word."""

    sentence: int
    word: str
    colour: Colour
    before: str = ""


LRP_COLOURS = (
    Coloured(1, "waste", "red"),
    Coloured(3, "horrible", "red"),
    Coloured(6, "disaster", "red"),
    Coloured(9, "repetitive", "red"),
    Coloured(19, "worthy", "red"),
    Coloured(20, "entertaining", "red"),
    Coloured(2, "funny", "blue"),
    Coloured(2, "suspenseful", "blue"),
    Coloured(5, "romantic", "blue"),
    Coloured(5, "thrilling", "blue"),
    Coloured(19, "difficult", "blue"),
    Coloured(11, "must-see", "blue"),
    Coloured(11, "list", "blue"),
    Coloured(17, "remember", "blue"),
    Coloured(17, "future", "blue"),
    Coloured(21, "fails", "blue"),
    Coloured(1, "n't", "blue", before="waste"),
    Coloured(3, "not", "blue", before="horrible"),
    Coloured(12, "n't", "red", before="worth"),
    Coloured(14, "n't", "red", before="surprises"),
    Coloured(16, "n't", "red", before="funny"),
    Coloured(18, "n't", "red", before="good"),
)
# Words that SA makes red although they speak against the sentence's class.
SA_RED = ((5, "thrilling"), (6, "master"), (11, "must-see"), (19, "difficult"))
# Wrongly classified sentences, and the words by which LRP explains the error.
MISLEADING = {11: ("must-see", "list"), 17: ("remember", "future"), 21: ("fails",)}
