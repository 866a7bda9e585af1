"""What the paper's text says about single words of Fig. 1 and Fig. 2, as testable statements."""

from collections.abc import Sequence

from whence._explain import explain_all
from whence.experiments.fig1_fig2_heatmaps import Printed
from whence.experiments.findings import Finding, found, undecided
from whence.experiments.published import LRP_COLOURS, MISLEADING, SA_RED, Coloured
from whence.experiments.test_set import TestSet
from whence.explanation import Explanation
from whence.methods.sensitivity import SensitivityAnalysis
from whence.render.colour import shades
from whence.render.probability import probabilities

VISIBLE = 0.1  # a word is red or blue if it has at least this part of full colour
NO_WORD = "the model's words do not include it"


def colour_findings(explanations: Sequence[Explanation], own: Printed) -> list[Finding]:
    """Fig. 2: the colours that LRP gives to the words and negators that the text names."""
    return [_coloured(each, _of(explanations, own, each.sentence), own) for each in LRP_COLOURS]


def _of(explanations: Sequence[Explanation], own: Printed, number: int) -> Explanation | None:
    return explanations[own.rows[number]] if number in own.rows else None


def _coloured(given: Coloured, explanation: Explanation | None, own: Printed) -> Finding:
    where = f'before "{given.before}" in sentence {given.sentence}' if given.before else f"in sentence {given.sentence}"
    claim = f'LRP makes "{given.word}" {given.colour} {where}'
    if explanation is None:
        return undecided("Fig. 2", claim, own.missing[given.sentence])
    strengths = _strengths(explanation, given.word)
    if not strengths:
        return undecided("Fig. 2", claim, NO_WORD)
    sign = 1 if given.colour == "red" else -1
    position, weakest = min(strengths.items(), key=lambda each: sign * each[1])
    told = ", ".join(f"{explanation.relevance[n]:+.3f} ({abs(strength):.0%})" for n, strength in strengths.items())
    detail = f'relevance for "{explanation.target}" (part of full colour): {told}'
    if sign * weakest < -VISIBLE:
        other, side = ("blue", "against") if sign > 0 else ("red", "for")
        amount = f"{explanation.relevance[position]:+.2f}"
        differs = f'here it is {other}, not {given.colour}: with {amount} it speaks {side} "{explanation.target}"'
    else:
        differs = f"here it has next to no colour, {abs(weakest):.0%} of full colour where {VISIBLE:.0%} would count"
    return found("Fig. 2", claim, sign * weakest >= VISIBLE, weakest, detail, differs=differs)


def _strengths(explanation: Explanation, word: str) -> dict[int, float]:
    """The colour of every occurrence of a word by its position: 1 is full red, −1 is full blue."""
    colours = zip(explanation.tokens, shades(explanation), strict=True)
    return {n: shade.strength * (1 if shade.is_for else -1) for n, (token, shade) in enumerate(colours) if token == word}


def sensitivity_findings(sa: Sequence[Explanation], lrp: Sequence[Explanation], own: Printed) -> list[Finding]:
    """Fig. 1: SA makes words red that speak against the sentence's class; red is more than the average word of the sentence."""
    made: list[Finding] = []
    for number, word in SA_RED:
        claim = f'SA makes "{word}" red in sentence {number}, although it speaks against the label'
        explanation, signed = _of(sa, own, number), _of(lrp, own, number)
        if explanation is None or signed is None:
            made.append(undecided("Fig. 1", claim, own.missing[number]))
            continue
        strengths = _strengths(explanation, word)
        if not strengths:
            made.append(undecided("Fig. 1", claim, NO_WORD))
            continue
        strength = max(strengths.values())
        usual = sum(shade.strength for shade in shades(explanation)) / len(explanation.tokens)
        by_lrp = ", ".join(f"{each:+.2f}" for each in _strengths(signed, word).values())
        detail = f"part of full colour; the average word of the sentence has {usual:.3f}; by LRP it has {by_lrp}"
        differs = "here it is paler than the average word of the sentence"
        made.append(found("Fig. 1", claim, strength > usual, strength, detail, differs=differs))
    return made


def misleading_findings(test: TestSet, explanations: Sequence[Explanation], own: Printed) -> list[Finding]:
    """Fig. 2: LRP shows which words misled the model. Without them, the label must be more probable."""
    return [_misled(test, explanations, own, number, words) for number, words in MISLEADING.items()]


def _misled(test: TestSet, explanations: Sequence[Explanation], own: Printed, number: int, words: Sequence[str]) -> Finding:
    named = " and ".join(f'"{word}"' for word in words)
    claim = f"LRP explains why sentence {number} is classified wrongly: {named} misled the model"
    if number in own.missing:
        return undecided("Fig. 2", claim, own.missing[number])
    row = own.rows[number]
    explanation = explanations[row]
    positions = [n for n, token in enumerate(explanation.tokens) if token in words]
    if not positions:
        return undecided("Fig. 2", claim, NO_WORD)
    if explanation.predicted == explanation.target:
        return undecided("Fig. 2", claim, "the model is right about this sentence")
    before, after = _probability(test, row, []), _probability(test, row, positions)
    told = ", ".join(f"{explanation.tokens[n]} {explanation.relevance[n]:+.3f}" for n in positions)
    detail = (
        f'change of the probability of "{explanation.target}" when these words are deleted, from {before:.3f} to {after:.3f}; '
        f'taken for "{explanation.predicted}"; relevance for the label: {told}'
    )
    other = [f'"{explanation.tokens[n]}" ({explanation.relevance[n]:+.2f})' for n in positions if explanation.relevance[n] >= 0]
    differs = "here the label is not more probable without these words"
    if other:
        differs = f'here {" and ".join(other)} does not speak against "{explanation.target}"'
    return found("Fig. 2", claim, not other and after > before, after - before, detail, differs=differs)


def _probability(test: TestSet, row: int, positions: Sequence[int]) -> float:
    """The probability of a sentence's label with some of its words deleted."""
    deleted = [token for n in positions for token in test.words[row][n]]
    (explanation,) = explain_all(
        test.pipeline, [test.texts[row]], target=test.labels[row], method=SensitivityAnalysis(), deleted=[deleted]
    )
    return probabilities(explanation.scores)[explanation.target]
