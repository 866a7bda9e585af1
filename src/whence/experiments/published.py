"""What Arras et al. (2017) printed: the numbers, the words and the sizes of their experiments."""

from typing import NamedTuple

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
