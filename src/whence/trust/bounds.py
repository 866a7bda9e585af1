"""The best and the worst order in which units can be taken away, as far as a search finds them.

AOPC depends on the model: where one word decides, every order scores high. Dividing by what is possible makes models and
samples comparable (Edin et al. 2024): (AOPC − lowest) / (highest − lowest). All orders are too many, so a beam search
keeps the few best beginnings.
"""

from collections.abc import Sequence

import numpy as np

from whence.trust.removal import plan
from whence.trust.subject import Mask, Numbers, Report, Subject, silent

BEAM = 2
LONGEST = 30  # units; the number of model runs grows with the square


def bounds(subject: Subject, rows: Sequence[int], *, report: Report = silent) -> tuple[Numbers, Numbers]:
    """The lowest and the highest AOPC that the search finds for each of these samples."""
    found = [_extreme(subject, list(rows), sign, report) for sign in (-1, 1)]
    return found[0], found[1]


def _extreme(subject: Subject, rows: list[int], sign: int, report: Report) -> Numbers:
    """The AOPC of the orders that make the model's answer fall (sign 1) or rise (−1) soonest."""
    lengths = subject.lengths[rows]
    whole = subject.read(subject.scores(rows, subject.untouched(rows)), subject.of[rows]).value
    beams: list[list[tuple[float, Mask, list[float]]]] = [[(0.0, np.zeros(length, dtype=bool), [0.0])] for length in lengths]
    for step in range(int(lengths.max(initial=0))):
        active = [k for k in range(len(rows)) if step < lengths[k]]
        tries = [(k, b, unit) for k in active for b, beam in enumerate(beams[k]) for unit in np.flatnonzero(~beam[1]).tolist()]
        variants = [_with(beams[k][b][1], unit) for k, b, unit in tries]
        owners = [rows[k] for k, _, _ in tries]
        values = subject.read(subject.scores(owners, variants), subject.of[owners]).value
        candidates: list[dict[bytes, tuple[float, Mask, list[float]]]] = [{} for _ in rows]
        for (k, b, _), mask, value in zip(tries, variants, values, strict=True):
            total, _, path = beams[k][b]
            fall = whole[k] - value
            better = (total + sign * fall, mask, [*path, fall])
            known = candidates[k].get(mask.tobytes())
            if known is None or better[0] > known[0]:
                candidates[k][mask.tobytes()] = better
        for k in active:
            beams[k] = sorted(candidates[k].values(), key=lambda each: -each[0])[:BEAM]
        report(len(active))
    best = [np.asarray(beam[0][2])[plan(length).levels].mean() for beam, length in zip(beams, lengths, strict=True)]
    return np.asarray(best)


def _with(mask: Mask, unit: int) -> Mask:
    found = mask.copy()
    found[unit] = True
    return found
