"""The paper's claims as testable statements, each with a verdict for the given model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.bootstrap import Band, band, draws, mean_band
from whence.evaluation.ranking import distinct, ranked_words
from whence.experiments.fig3_deletion import Curves, Side
from whence.experiments.fig4_position import Intervals
from whence.experiments.published import NEGATORS, RANDOM_DEVIATION
from whence.experiments.test_set import NAMES
from whence.explanation import Explanation

CLOSE = 0.2  # a curve is close to LRP's if it is within this fraction of LRP's lead over random
TOP = 100  # how many of the most relevant words are checked for their polarity
REACH = 3  # how many words after a negator are searched for a word of the lexicon
ENOUGH = 10  # with fewer sentences, or words, there is no verdict
ENDS = (0, 1, -2, -1)  # the first two and the last two of ten intervals


@dataclass(frozen=True)
class Finding:
    """A claim, whether it holds (None: this data cannot decide), and the number that decides, with its 95 % interval."""

    claim: str
    holds: bool | None
    statistic: float | None
    interval: tuple[float, float] | None
    detail: str

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {**asdict(self), "interval": None if self.interval is None else list(self.interval)}


def undecided(claim: str, why: str) -> Finding:
    """A claim that this data cannot decide."""
    return Finding(claim, None, None, None, why)


def deletion_findings(panels: Mapping[Side, Curves]) -> list[Finding]:
    """Fig. 3: which curve falls or rises most steeply. The area under a curve is its mean accuracy over 1 to 5 deletions."""
    found = [
        _steeper("LRP falls more steeply than SA where the model was right", panels, "correct", "sa", "lrp"),
        _steeper("LRP falls more steeply than random deletion where the model was right", panels, "correct", "random", "lrp"),
        _steeper("LRP rises more steeply than SA where the model was wrong", panels, "wrong", "lrp", "sa"),
        _steeper("LRP rises more steeply than random deletion where the model was wrong", panels, "wrong", "lrp", "random"),
        _steeper("SA is worse than random deletion where the model was wrong", panels, "wrong", "random", "sa"),
        _close(panels),
    ]
    deviation = max((float(curves.runs.std(0).max()) for curves in panels.values()), default=None)
    claim = f"The standard deviation of the random runs stays below {RANDOM_DEVIATION}"
    if deviation is None:
        return [*found, undecided(claim, "no sentence is long enough")]
    return [
        *found,
        Finding(claim, deviation < RANDOM_DEVIATION, deviation, None, "the largest over both panels and all deletions"),
    ]


def _steeper(claim: str, panels: Mapping[Side, Curves], side: Side, above: str, below: str) -> Finding:
    if side not in panels or panels[side].sentences < ENOUGH:
        return undecided(
            claim, f"the model is {'right' if side == 'correct' else 'wrong'} about too few sentences that are long enough"
        )
    hits = panels[side].hits
    lead = (hits[above] - hits[below])[:, 1:].mean(-1)
    statistic, interval = float(lead.mean()), _interval(mean_band(lead))
    after = ", ".join(f"{NAMES[name]} {hits[name][:, -1].mean():.3f}" for name in (above, below))
    detail = f"area between the curves, {NAMES[above]} above {NAMES[below]}; accuracy after 5 deletions: {after}"
    return Finding(claim, interval[0] > 0, statistic, interval, detail)


def _close(panels: Mapping[Side, Curves]) -> Finding:
    claim = f"LRP_cons stays close to LRP, within {CLOSE:.0%} of LRP's lead over random deletion, on both panels"
    parts: list[float] = []
    for curves in panels.values():
        if curves.sentences < ENOUGH:
            return undecided(claim, "too few sentences are long enough")
        lrp, cons, random = (curves.accuracy(name)[1:].mean() for name in ("lrp", "lrp_cons", "random"))
        if random == lrp:
            return undecided(claim, "LRP has no lead over random deletion to compare with")
        parts.append(float(abs(cons - lrp) / abs(random - lrp)))
    if not parts:
        return undecided(claim, "no sentence is long enough")
    detail = "difference of areas over lead, " + ", ".join(
        f"{side} {part:.3f}" for side, part in zip(panels, parts, strict=True)
    )
    return Finding(claim, max(parts) < CLOSE, max(parts), None, detail)


def _interval(found: Band) -> tuple[float, float]:
    return float(found.low), float(found.high)


def position_findings(intervals: Mapping[str, Sequence[Intervals]], classes: Sequence[str], method: str) -> list[Finding]:
    """Fig. 4: most relevance lies in the second half of a sentence, except for "neutral", where it lies at both ends."""
    polar = [n for n in range(len(classes)) if n != 2]
    halves = [f'By {method}, most relevance for "{classes[n]}" lies in the second half of the sentence' for n in polar]
    ends = f'By {method}, relevance for "{classes[2]}" lies at the two ends: over 40 % in the outer four of ten intervals'
    total = intervals.get("total", ())
    if not total or len(total[0]) < ENOUGH:
        return [undecided(claim, "there is no relevance, or too few sentences are long enough") for claim in (*halves, ends)]
    found = [_share(claim, total[n], range(5, 10), above=0.5) for claim, n in zip(halves, polar, strict=True)]
    return [*found, _share(ends, total[2], ENDS, above=0.4)]


def _share(claim: str, intervals: Intervals, which: Sequence[int], *, above: float) -> Finding:
    """Whether the share of relevance in some intervals is above a threshold."""
    part, whole = intervals[:, list(which)].sum(-1), intervals.sum(-1)
    weights = draws(len(intervals))
    interval = _interval(band((weights @ part) / (weights @ whole)))
    share = float(part.sum() / whole.sum())
    detail = f"share of all absolute relevance; an even distribution would give {above:g}"
    return Finding(claim, interval[0] > above, share, interval, detail)


def polarity_findings(
    explanations: Mapping[str, Sequence[Sequence[Explanation]]], classes: Sequence[str], lexicon: Mapping[str, float]
) -> list[Finding]:
    """Table 1: LRP's most relevant words have the polarity of the class, more often than those of SA."""
    found: list[Finding] = []
    for number, side, sign in ((4, "positive", 1), (0, "negative", -1)):
        claim = f'The words most relevant for "{classes[number]}" by LRP are {side} ones'
        agreeing = {
            name: _agreement([each[number] for each in own], lexicon, sign)
            for name, own in explanations.items()
            if name in ("lrp", "sa")
        }
        base = _agreement_of(sorted({w for own in explanations["lrp"] for w in own[0].tokens}), lexicon, sign)
        if not all(len(each) >= ENOUGH for each in (*agreeing.values(), base)):
            found.append(undecided(claim, "too few of the words are in the lexicon"))
            continue
        interval = _interval(mean_band(agreeing["lrp"]))
        detail = (
            f"share of the {len(agreeing['lrp'])} words in VADER's lexicon among the {TOP} most relevant"
            f" that it rates as {side}; "
            f"of SA's {agreeing['sa'].mean():.3f}, of all words of these sentences {base.mean():.3f}"
        )
        holds = interval[0] > max(0.5, float(base.mean()))
        found.append(Finding(claim, holds, float(agreeing["lrp"].mean()), interval, detail))
    return found


def _agreement(explanations: Sequence[Explanation], lexicon: Mapping[str, float], sign: int) -> NDArray[np.float64]:
    top = distinct(ranked_words(explanations), TOP)
    return _agreement_of([each.word for each in top], lexicon, sign)


def _agreement_of(words: Sequence[str], lexicon: Mapping[str, float], sign: int) -> NDArray[np.float64]:
    return np.array([sign * lexicon[word] > 0 for word in words if word in lexicon], dtype=float)


def negation_finding(explanations: Sequence[Explanation], target: str, lexicon: Mapping[str, float]) -> Finding:
    """Heatmaps: a negator speaks for "very negative" before a positive word and less so, or against, before a negative one."""
    claim = f'What a negator says about "{target}" depends on what follows: it speaks more for it before a positive word'
    followed: dict[bool, list[float]] = {True: [], False: []}
    for explanation in explanations:
        for n, word in enumerate(explanation.tokens):
            ahead = explanation.tokens[n + 1 : n + 1 + REACH]
            valence = next((lexicon[each] for each in ahead if lexicon.get(each)), None)
            if word in NEGATORS and valence is not None:
                followed[valence > 0].append(explanation.relevance[n])
    positive, negative = np.array(followed[True]), np.array(followed[False])
    if min(len(positive), len(negative)) < ENOUGH:
        return undecided(claim, "too few negators stand before words of the lexicon")
    resampled = draws(len(positive)) @ positive / len(positive) - draws(len(negative), seed=1) @ negative / len(negative)
    interval = _interval(band(resampled))
    detail = (
        f"difference of mean LRP relevance of {', '.join(NEGATORS)} within {REACH} words of a word in VADER's lexicon: "
        f"{positive.mean():+.3f} before {len(positive)} positive, {negative.mean():+.3f} before {len(negative)} negative ones"
    )
    return Finding(claim, interval[0] > 0, float(positive.mean() - negative.mean()), interval, detail)
