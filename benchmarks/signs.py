"""Whether the model confirms the signs, by head: cosine of relevance with occlusion of the model's own output.

    python benchmarks/signs.py [--write]

Every head of tests/models/heads.py on an LSTM, a GRU and a loop of cells with random weights, 48 samples each, with the linear
layer's bias as it is and at −3. "As a whole" is LRP where these activations hand their relevance on unchanged, by
`whence.handles`. `--write` puts the table into docs/signs.md.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import whence  # noqa: E402
from tests.engine.test_resting import Ended  # noqa: E402
from tests.models.heads import HEADS, NORMALISED, last  # noqa: E402
from whence.engine.table import TABLE  # noqa: E402

SAMPLES, STEPS, FEATURES = 48, 6, 5
BODIES, BIASES = ("lstm", "gru", "cell"), (None, -3.0)
SQUASHING = (torch.sigmoid, F.softplus, torch.exp, torch.log, torch.softmax, torch.log_softmax, torch.clamp, torch.reciprocal)
OTHERWISE = ("log-sum-exp over time", "z − logsumexp", "Categorical.logits")  # these call none of them
PAGE, MARK = ROOT / "docs" / "signs.md", "<!-- the table: python benchmarks/signs.py --write -->"
COLUMNS = ("LRP", "as a whole", "Gradient×Input")


def cosines(name: str, method: Any, *, as_a_whole: bool = False) -> float:
    """The mean cosine with occlusion over all bodies and biases."""
    head, found = {"logits": last(lambda z: z), **HEADS, **NORMALISED}[name], list[Tensor]()
    for body in BODIES:
        for bias in BIASES:
            model = Ended(head, body, bias=bias).eval()
            x = 1.5 * torch.randn(SAMPLES, STEPS, FEATURES, generator=torch.Generator().manual_seed(1))
            occluded = _by_step(model, x, whence.Occlusion())
            kept = dict(TABLE)
            if as_a_whole:
                whence.handles(*SQUASHING)(lambda call, relevance: relevance)
            try:
                own = _by_step(model, x, method)
            finally:
                TABLE.update(kept)
            found.append(torch.cosine_similarity(own, occluded))
    return float(torch.cat(found).mean())


def _by_step(model: torch.nn.Module, x: Tensor, method: Any) -> Tensor:
    return whence.relevance(model, x, target=0, method=method).relevance.sum(-1)


def table() -> str:
    """All heads, as a table in Markdown."""
    rows = [f"| head | {' | '.join(COLUMNS)} |", "|---|---|---|---|"]
    for name in ("logits", *HEADS, *NORMALISED):
        whole = None if name in OTHERWISE else cosines(name, whence.LRP(), as_a_whole=True)
        values = (cosines(name, whence.LRP()), whole, cosines(name, whence.GradientXInput()))
        shown = ["" if value is None else f"{value:.2f}".replace("-", "−") for value in values]
        rows.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    found = table()
    print(found)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        before, _, after = page.partition(MARK)
        rest = after.split("\n\n", 2)[2]
        PAGE.write_text(f"{before}{MARK}\n\n{found}\n\n{rest}", encoding="utf-8")
