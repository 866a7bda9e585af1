"""The paper's claims as testable statements, each with a verdict for the given model."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from whence.evaluation.accuracy import NEUTRAL
from whence.evaluation.bootstrap import Band, band, draws, mean_band
from whence.evaluation.ranking import Occurrence, distinct, ranked_words
from whence.experiments.fig3_deletion import Curves, Side
from whence.experiments.fig4_position import Intervals
from whence.experiments.methods import NAMES
from whence.experiments.published import NEGATORS, RANDOM_DEVIATION
from whence.experiments.stop_words import is_stop_word
from whence.explanation import Explanation

CLOSE = 0.2  # a curve is close to LRP's if it is within this fraction of LRP's lead over random
TOP = 100  # how many of the most relevant words are checked for their polarity
SYMMETRIC = 0.1  # a distribution is almost symmetric if less of it differs from its mirror image
REACH = 3  # how many words after a negator are searched for a word of the lexicon
ENOUGH = 10  # with fewer sentences, or words, there is no verdict
ENDS = (0, 1, -2, -1)  # the first two and the last two of ten intervals
LAST = {"left": (8, 9), "right": (0, 1)}  # the last two intervals that each encoder reads
STOPS = 8  # how many of the ten words of Table 1 must be stop words
NO_POSITION = "there is no relevance, or too few sentences are long enough"
NO_ENCODERS = "the model's encoders cannot be separated, or too few sentences are long enough"
Part = Literal["Fig. 1", "Fig. 2", "Table 1", "Fig. 3", "Fig. 4", "Cost"]  # what a claim is about


@dataclass(frozen=True)
class Finding:
    """A claim, whether it holds (None: this data cannot decide), and the number that decides, with its 95 % interval.

    `detail` says what the number is. `differs` says in plain words what is different here; it is empty if the claim holds.
    """

    part: Part
    claim: str
    holds: bool | None
    statistic: float | None
    interval: tuple[float, float] | None
    detail: str
    differs: str = ""

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {**asdict(self), "interval": None if self.interval is None else list(self.interval)}


def undecided(part: Part, claim: str, why: str) -> Finding:
    """A claim that this data cannot decide."""
    return Finding(part, claim, None, None, None, why)


def found(
    part: Part,
    claim: str,
    holds: bool,
    statistic: float,
    detail: str,
    *,
    differs: str,
    interval: tuple[float, float] | None = None,
) -> Finding:
    """A claim with its verdict; `differs` is kept only if it does not hold."""
    return Finding(part, claim, holds, statistic, interval, detail, "" if holds else differs)


def deletion_findings(panels: Mapping[Side, Curves]) -> list[Finding]:
    """Fig. 3: which curve falls or rises most steeply. The area under a curve is its mean accuracy over 1 to 5 deletions."""
    made = [
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
        return [*made, undecided("Fig. 3", claim, "no sentence is long enough")]
    detail, differs = "the largest over both panels and all deletions", "here the random runs differ more"
    return [*made, found("Fig. 3", claim, deviation < RANDOM_DEVIATION, deviation, detail, differs=differs)]


def conserving_findings(panels: Mapping[Side, Curves], *, is_same: bool) -> list[Finding]:
    """Fig. 3: LRP is a little better than LRP_cons. `is_same`: LRP was run with δ = 1, which is LRP_cons."""
    falls = "LRP falls a little more steeply than LRP_cons where the model was right"
    rises = "LRP rises a little more steeply than LRP_cons where the model was wrong"
    if is_same:
        return [undecided("Fig. 3", claim, "LRP was run with δ = 1 here, which is LRP_cons") for claim in (falls, rises)]
    return [_steeper(falls, panels, "correct", "lrp_cons", "lrp"), _steeper(rises, panels, "wrong", "lrp", "lrp_cons")]


def _steeper(claim: str, panels: Mapping[Side, Curves], side: Side, above: str, below: str) -> Finding:
    if side not in panels or panels[side].sentences < ENOUGH:
        why = f"the model is {'right' if side == 'correct' else 'wrong'} about too few sentences that are long enough"
        return undecided("Fig. 3", claim, why)
    hits = panels[side].hits
    lead = (hits[above] - hits[below])[:, 1:].mean(-1)
    statistic, interval = float(lead.mean()), _interval(mean_band(lead))
    after = ", ".join(f"{NAMES[name]} {hits[name][:, -1].mean():.3f}" for name in (above, below))
    detail = f"area between the curves, {NAMES[above]} above {NAMES[below]}; accuracy after 5 deletions: {after}"
    differs = "here it is the other way round" if interval[1] < 0 else "here the two curves cannot be told apart"
    return found("Fig. 3", claim, interval[0] > 0, statistic, detail, differs=differs, interval=interval)


def _close(panels: Mapping[Side, Curves]) -> Finding:
    claim = f"LRP_cons stays close to LRP, within {CLOSE:.0%} of LRP's lead over random deletion, on both panels"
    parts: list[float] = []
    for curves in panels.values():
        if curves.sentences < ENOUGH:
            return undecided("Fig. 3", claim, "too few sentences are long enough")
        lrp, cons, random = (curves.accuracy(name)[1:].mean() for name in ("lrp", "lrp_cons", "random"))
        if random == lrp:
            return undecided("Fig. 3", claim, "LRP has no lead over random deletion to compare with")
        parts.append(float(abs(cons - lrp) / abs(random - lrp)))
    if not parts:
        return undecided("Fig. 3", claim, "no sentence is long enough")
    detail = "difference of areas over lead, " + ", ".join(
        f"{side} {part:.3f}" for side, part in zip(panels, parts, strict=True)
    )
    differs = f"here LRP_cons is {max(parts):.0%} of LRP's lead away from LRP"
    return found("Fig. 3", claim, max(parts) < CLOSE, max(parts), detail, differs=differs)


def _interval(found: Band) -> tuple[float, float]:
    return float(found.low), float(found.high)


def position_findings(intervals: Mapping[str, Sequence[Intervals]], classes: Sequence[str], method: str) -> list[Finding]:
    """Fig. 4: most relevance lies in the second half of a sentence, except for "neutral", where it lies at both ends."""
    polar = [n for n in range(len(classes)) if n != NEUTRAL]
    halves = [f'By {method}, most relevance for "{classes[n]}" lies in the second half of the sentence' for n in polar]
    ends = f'By {method}, relevance for "{classes[NEUTRAL]}" lies at the two ends: over 40 % in the outer four of ten intervals'
    total = intervals.get("total", ())
    if not total or len(total[0]) < ENOUGH:
        return [undecided("Fig. 4", claim, NO_POSITION) for claim in (*halves, ends)]
    made = [_share(claim, total[n], range(5, 10), above=0.5) for claim, n in zip(halves, polar, strict=True)]
    return [*made, _share(ends, total[NEUTRAL], ENDS, above=0.4)]


@lru_cache(maxsize=1)
def _kept_draws(count: int) -> NDArray[np.float64]:
    """The draws that all claims about Fig. 4 need; making them takes longer than using them."""
    return draws(count)


def _share(claim: str, intervals: Intervals, which: Sequence[int], *, above: float) -> Finding:
    """Whether the share of relevance in some intervals is above a threshold."""
    share, interval = _share_in(intervals, which)
    detail = f"share of all absolute relevance; an even distribution would give {above:g}"
    than = "less than" if interval[1] < above else "about as much as"
    differs = f"here {share:.1%} lies there, {than} in an even distribution"
    return found("Fig. 4", claim, interval[0] > above, share, detail, differs=differs, interval=interval)


def _share_in(intervals: Intervals, which: Sequence[int]) -> tuple[float, tuple[float, float]]:
    """The share of relevance in some intervals, and its 95 % interval."""
    part, whole = intervals[:, list(which)].sum(-1), intervals.sum(-1)
    weights = _kept_draws(len(intervals))
    return float(part.sum() / whole.sum()), _interval(band((weights @ part) / (weights @ whole)))


def shape_findings(intervals: Mapping[str, Sequence[Intervals]], classes: Sequence[str], method: str) -> list[Finding]:
    """Fig. 4: "neutral" is almost symmetric, at the last steps of each encoder; the left encoder's curve is smoother."""
    return [
        _symmetric(intervals.get("total", ()), classes, method),
        _last_steps(intervals, classes, method),
        _smoother(intervals, method),
    ]


def _symmetric(total: Sequence[Intervals], classes: Sequence[str], method: str) -> Finding:
    neutral = classes[NEUTRAL]
    claim = f'By {method}, the distribution for "{neutral}" is almost symmetric: within {SYMMETRIC:.0%} of its mirror image'
    if not total or len(total[0]) < ENOUGH:
        return undecided("Fig. 4", claim, NO_POSITION)
    skew = [float(_skew(own.sum(0))) for own in total]
    interval = _interval(band(_skew(_kept_draws(len(total[NEUTRAL])) @ total[NEUTRAL])))
    others = [each for n, each in enumerate(skew) if n != NEUTRAL]
    told = f"for the other classes {min(others):.3f} to {max(others):.3f}"
    detail = f"part of the relevance that differs from the mirror image; {told}"
    differs = f"here {skew[NEUTRAL]:.1%} of the relevance differs from the mirror image"
    return found("Fig. 4", claim, interval[1] < SYMMETRIC, skew[NEUTRAL], detail, differs=differs, interval=interval)


def _skew(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the sum of the differences between shares and mirrored shares (..., intervals), 0 to 1."""
    shares = amounts / amounts.sum(-1, keepdims=True)
    return np.abs(shares - shares[..., ::-1]).sum(-1) / 2


def _last_steps(intervals: Mapping[str, Sequence[Intervals]], classes: Sequence[str], method: str) -> Finding:
    claim = (
        f'By {method}, relevance for "{classes[NEUTRAL]}" in each encoder lies at the last steps that it reads: '
        "over 20 % in the last two of ten intervals"
    )
    if not {"left", "right"} <= set(intervals) or len(intervals["left"][NEUTRAL]) < ENOUGH:
        return undecided("Fig. 4", claim, NO_ENCODERS)
    shares = {side: _share_in(intervals[side][NEUTRAL], which) for side, which in LAST.items()}
    side, (share, interval) = min(shares.items(), key=lambda each: each[1][0])
    told = ", ".join(f"{name} {each[0]:.3f}" for name, each in shares.items())
    detail = f"the smaller of both encoders' shares ({told}); an even distribution would give 0.2"
    differs = f"here the {side} encoder has {share:.1%} there, no more than in an even distribution"
    holds = all(each[1][0] > 0.2 for each in shares.values())
    return found("Fig. 4", claim, holds, share, detail, differs=differs, interval=interval)


def _smoother(intervals: Mapping[str, Sequence[Intervals]], method: str) -> Finding:
    claim = f"By {method}, the left encoder's curve is smoother than the right encoder's"
    if not {"left", "right"} <= set(intervals) or len(intervals["left"][0]) < ENOUGH:
        return undecided("Fig. 4", claim, NO_ENCODERS)
    weights = _kept_draws(len(intervals["left"][0]))
    rough = {side: _roughness([own.sum(0) for own in intervals[side]]) for side in ("left", "right")}
    resampled = {side: _roughness([weights @ own for own in intervals[side]]) for side in ("left", "right")}
    interval = _interval(band(resampled["right"] - resampled["left"]))
    left, right = (float(rough[side]) for side in ("left", "right"))
    told = f"{right:.4f} − {left:.4f}"
    detail = f"roughness of the right curve minus that of the left (mean absolute second difference of the shares): {told}"
    if left < right:
        differs = "here the left curve is smoother by so little that it may be chance"
    else:
        differs = f"here the right curve is the smoother one{'' if interval[1] < 0 else ', by so little that it may be chance'}"
    return found("Fig. 4", claim, interval[0] > 0, right - left, detail, differs=differs, interval=interval)


def _roughness(by_class: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The mean absolute second difference of the shares (..., intervals), over intervals and classes."""
    shares = [own / own.sum(-1, keepdims=True) for own in by_class]
    return np.mean([np.abs(np.diff(own, 2)).mean(-1) for own in shares], axis=0)


def polarity_findings(
    explanations: Mapping[str, Sequence[Sequence[Explanation]]], classes: Sequence[str], lexicon: Mapping[str, float]
) -> list[Finding]:
    """Table 1: LRP's most relevant words have the polarity of the class, more often than those of SA."""
    made: list[Finding] = []
    for number, side, sign in ((4, "positive", 1), (0, "negative", -1)):
        claim = f'The words most relevant for "{classes[number]}" by LRP are {side} ones'
        agreeing = {
            name: _agreement([each[number] for each in own], lexicon, sign)
            for name, own in explanations.items()
            if name in ("lrp", "sa")
        }
        base = _agreement_of(sorted({w for own in explanations["lrp"] for w in own[0].tokens}), lexicon, sign)
        if not all(len(each) >= ENOUGH for each in (*agreeing.values(), base)):
            made.append(undecided("Table 1", claim, "too few of the words are in the lexicon"))
            continue
        interval = _interval(mean_band(agreeing["lrp"]))
        detail = (
            f"share of the {len(agreeing['lrp'])} words in VADER's lexicon among the {TOP} most relevant"
            f" that it rates as {side}; "
            f"of SA's {agreeing['sa'].mean():.3f}, of all words of these sentences {base.mean():.3f}"
        )
        holds = interval[0] > max(0.5, float(base.mean()))
        share = float(agreeing["lrp"].mean())
        made.append(found("Table 1", claim, holds, share, detail, differs=_not_so_many(share, side), interval=interval))
    return made


def _not_so_many(share: float, side: str) -> str:
    return f"here only {share:.0%} of them are {side}, not clearly more than half of them and than among all words"


def extreme_findings(
    explanations: Mapping[str, Sequence[Sequence[Explanation]]], classes: Sequence[str], lexicon: Mapping[str, float]
) -> list[Finding]:
    """Table 1: LRP's least relevant words are negative; SA's are stop words, and its most relevant ones say nothing."""
    ranked = {name: ranked_words([each[-1] for each in explanations[name]]) for name in ("lrp", "sa")}
    words = sorted({word for own in explanations["lrp"] for word in own[0].tokens})
    return [
        _least_are_negative(ranked["lrp"], words, classes[-1], lexicon),
        _least_are_stop_words(ranked["sa"], classes[-1]),
        _most_are_unrelated(ranked["sa"], words, classes[-1], lexicon),
    ]


def _least_are_negative(
    ranked: Sequence[Occurrence], words: Sequence[str], target: str, lexicon: Mapping[str, float]
) -> Finding:
    claim = f'The words least relevant for "{target}" by LRP are negative ones'
    least = [each.word for each in distinct(reversed(ranked), TOP)]
    negative, base = (_agreement_of(each, lexicon, -1) for each in (least, words))
    if min(len(negative), len(base)) < ENOUGH:
        return undecided("Table 1", claim, "too few of the words are in the lexicon")
    share, interval = float(negative.mean()), _interval(mean_band(negative))
    detail = (
        f"share of the {len(negative)} words in VADER's lexicon among the {TOP} least relevant that it rates as negative; "
        f"of all words of these sentences {base.mean():.3f}"
    )
    holds = interval[0] > max(0.5, float(base.mean()))
    return found("Table 1", claim, holds, share, detail, differs=_not_so_many(share, "negative"), interval=interval)


def _least_are_stop_words(ranked: Sequence[Occurrence], target: str) -> Finding:
    claim = f'The ten words least relevant for "{target}" by SA are stop words, at least {STOPS} of them'
    least = [each.word for each in distinct(reversed(ranked), 10)]
    if len(least) < 10:
        return undecided("Table 1", claim, "there are fewer than ten different words")
    others = [word for word in least if not is_stop_word(word)]
    count = 10 - len(others)
    detail = "how many are articles, pronouns, prepositions, conjunctions, auxiliary verbs, particles or punctuation"
    differs = f"here {len(others)} of the ten are not: {', '.join(others)}"
    return found("Table 1", claim, count >= STOPS, count, detail, differs=differs)


def _most_are_unrelated(
    ranked: Sequence[Occurrence], words: Sequence[str], target: str, lexicon: Mapping[str, float]
) -> Finding:
    claim = f'The words most relevant for "{target}" by SA are unrelated to it: positive about as often as any word'
    positive, base = (_agreement_of(each, lexicon, 1) for each in ([each.word for each in distinct(ranked, TOP)], words))
    if min(len(positive), len(base)) < ENOUGH:
        return undecided("Table 1", claim, "too few of the words are in the lexicon")
    share, usual, interval = float(positive.mean()), float(base.mean()), _interval(mean_band(positive))
    detail = (
        f"share of the {len(positive)} words in VADER's lexicon among the {TOP} most relevant that it rates as positive; "
        f"holds if its interval includes that of all words of these sentences, {usual:.3f}"
    )
    differs = f"here they are positive {'more' if share > usual else 'less'} often than others ({share:.0%})"
    holds = interval[0] <= usual <= interval[1]
    return found("Table 1", claim, holds, share, detail, differs=differs, interval=interval)


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
        return undecided("Fig. 2", claim, "too few negators stand before words of the lexicon")
    resampled = draws(len(positive)) @ positive / len(positive) - draws(len(negative), seed=1) @ negative / len(negative)
    interval = _interval(band(resampled))
    detail = (
        f"difference of mean LRP relevance of {', '.join(NEGATORS)} within {REACH} words of a word in VADER's lexicon: "
        f"{positive.mean():+.3f} before {len(positive)} positive, {negative.mean():+.3f} before {len(negative)} negative ones"
    )
    differs = "here a negator says the same before both" if interval[1] >= 0 else "here it is the other way round"
    lead = float(positive.mean() - negative.mean())
    return found("Fig. 2", claim, interval[0] > 0, lead, detail, differs=differs, interval=interval)
