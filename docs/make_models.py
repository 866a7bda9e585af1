"""Writes docs/models.md's table by running it: every cell and network with every feature, tested or refused with the message.

`python docs/make_models.py` prints the table; `--write` puts it into docs/models.md. The cells are those of tests/models. What
was found with published models, which are not part of this repository, is read from docs/published.csv.
"""

import csv
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import whence  # noqa: E402
from tests.models.cells import ZOO  # noqa: E402
from tests.models.networks import NETWORKS  # noqa: E402
from tests.models.published import PUBLISHED  # noqa: E402
from whence import LRP, GradientXInput, SensitivityAnalysis  # noqa: E402

PAGE = ROOT / "docs" / "models.md"
START, END = "<!-- the table: python docs/make_models.py --write -->", "<!-- end of the table -->"
Check = Callable[[nn.Module, torch.Tensor], None]
ABOUT = """
These public models were loaded as their authors wrote them, with small sizes and random weights, in double precision where they
allow it, and explained with `LRP()`, `SensitivityAnalysis()` and `GradientXInput()`: no mark, no change to their code. `call=`
was used where a model takes its inputs in another way. An entry counts if the ledger closes. The models are not part of this
repository; the results are in [`published.csv`](published.csv).
"""


def balances(method: LRP) -> Check:
    """Whether relevance + absorbed is the score."""

    def check(model: nn.Module, x: torch.Tensor) -> None:
        result = whence.relevance(model, x, target=1, method=method, check=False)  # amounts round at their own size
        largest = float(torch.as_tensor(result.relevance).abs().max())
        result.check(1e-8 * max(1.0, largest))

    return check


def batches(model: nn.Module, x: torch.Tensor) -> None:
    """Whether a sample is explained the same alone and in a batch."""
    together = torch.as_tensor(whence.relevance(model, x, target=1).relevance)
    alone = torch.as_tensor(whence.relevance(model, x[:1], target=1).relevance)
    torch.testing.assert_close(together[:1], alone, rtol=1e-9, atol=1e-10)


def every_class(model: nn.Module, x: torch.Tensor) -> None:
    """Whether all classes at once are each class on its own."""
    every = torch.as_tensor(whence.relevance(model, x, target="all").relevance)
    torch.testing.assert_close(every[1], torch.as_tensor(whence.relevance(model, x, target=1).relevance), rtol=1e-9, atol=1e-10)


def without_rules(model: nn.Module, x: torch.Tensor) -> None:
    """Whether the methods that need no rules run."""
    for method in (SensitivityAnalysis(), GradientXInput()):
        whence.relevance(model, x, target=1, method=method)


FEATURES: dict[str, Check] = {
    "all": balances(LRP()),
    "all, δ = 1": balances(LRP(delta=1.0)),
    "half": balances(LRP(product="half")),
    "prop": balances(LRP(product="prop")),
    "abs": balances(LRP(product="abs")),
    "batch = alone": batches,
    "all classes": every_class,
    "SA, G×I": without_rules,
}


def tried() -> list[dict[str, str]]:
    """The published models that were tried: repository, model, kind (a row of the table), lrp, sa, gi."""
    with (ROOT / "docs" / "published.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def as_published(kind: str) -> str:
    """How many published models of a kind were tried, and how many were explained by LRP."""
    own = [row for row in tried() if row["kind"] == kind]
    return f"{sum(row['lrp'] == 'ok' for row in own)} of {len(own)}" if own else "not tried"


def published() -> str:
    """By repository, how many models were tried and explained; then why others were not."""
    models = tried()
    every, found = Counter(row["repository"] for row in models), {}
    for method in ("lrp", "sa", "gi"):
        found[method] = Counter(row["repository"] for row in models if row[method] == "ok")
    total = {method: sum(each.values()) for method, each in found.items()}
    heading = (
        f"{len(models)} models of {len(every)} repositories: LRP explains {total['lrp']} of them, "
        f"sensitivity analysis {total['sa']}, Gradient×Input {total['gi']}."
    )
    rows = [
        f"| {name} | {count} | {found['lrp'][name]} | {found['sa'][name]} | {found['gi'][name]} |"
        for name, count in sorted(every.items(), key=lambda each: each[0].lower())
    ]
    refused = [f"- {row['repository']}, {row['model']}: {row['lrp']}" for row in models if row["lrp"] != "ok"]
    return "\n".join(
        [
            heading,
            "",
            "| repository | models | LRP | SA | G×I |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "Not explained by LRP:",
            "",
            *refused,
        ]
    )


def table() -> str:
    """The table and, below it, what the refusals say."""
    rows = ["| model | " + " | ".join(FEATURES) + " | as published |", "|---|" + "---|" * (len(FEATURES) + 1)]
    refusals: dict[str, int] = {}
    for name, make in {**ZOO, **NETWORKS, **PUBLISHED}.items():
        torch.manual_seed(0)
        model, x = make(4, 4, 3).double().eval(), torch.randn(3, 5, 4, dtype=torch.float64)
        cells: list[str] = []
        for check in FEATURES.values():
            try:
                check(model, x)
                cells.append("✓")
            except whence.WhenceError as refusal:
                number = refusals.setdefault(str(refusal), len(refusals) + 1)
                cells.append(f"refused ({number})")
        rows.append(f"| {name} | " + " | ".join([*cells, as_published(name)]) + " |")
    notes = [f"{number}. `{message}`" for message, number in refusals.items()]
    return "\n".join([*rows, "", *notes])


class Optioned(nn.Module):
    """A recurrent layer with any options, packed or not, under a head on its last state."""

    def __init__(self, layer: nn.RNNBase, *, packed: bool = False, with_states: bool = False) -> None:
        super().__init__()
        self.layer, self.packed, self.with_states = layer, packed, with_states
        self.head = nn.Linear(getattr(layer, "proj_size", 0) or layer.hidden_size, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores."""
        given = None
        if self.with_states:
            rows = self.layer.num_layers * (2 if self.layer.bidirectional else 1)
            given = torch.linspace(-1, 1, rows * len(x) * 4, dtype=x.dtype).view(rows, len(x), 4)
            given = (given, given.flip(0)) if isinstance(self.layer, nn.LSTM) else given
        read = pack_padded_sequence(x, torch.tensor([5, 3, 1]), batch_first=True, enforce_sorted=False) if self.packed else x
        last = self.layer(read, given)[1]
        h = last[0] if isinstance(last, tuple) else last
        return self.head(h[-1])


def options() -> str:
    """PyTorch's own layers with each of their options: the books balance by every rule for products."""
    layers = {
        "nn.LSTM": nn.LSTM,
        "nn.GRU": nn.GRU,
        "nn.RNN, tanh": nn.RNN,
        "nn.RNN, ReLU": lambda *sizes, **more: nn.RNN(*sizes, nonlinearity="relu", **more),
    }
    kinds: dict[str, tuple[dict[str, Any], dict[str, bool]]] = {
        "stacked": ({"num_layers": 3}, {}),
        "bidirectional": ({"bidirectional": True}, {}),
        "time first": ({"batch_first": False}, {}),
        "packed": ({}, {"packed": True}),
        "initial states": ({"num_layers": 2, "bidirectional": True}, {"with_states": True}),
        "unbatched": ({}, {}),
        "bias=False": ({"bias": False}, {}),
        "projected": ({"proj_size": 2}, {}),
        "one step": ({}, {}),
    }
    rows = ["| layer | " + " | ".join(kinds) + " |", "|---|" + "---|" * len(kinds)]
    for name, layer in layers.items():
        cells: list[str] = []
        for kind, (settings, more) in kinds.items():
            if kind == "projected" and name != "nn.LSTM":
                cells.append("–")
                continue
            torch.manual_seed(0)
            model = Optioned(layer(4, 4, **{"batch_first": True, **settings}), **more).double()
            x = torch.randn(3, 5, 4, dtype=torch.float64)
            x = {"unbatched": x[0], "one step": x[:, :1], "time first": x.transpose(0, 1)}.get(kind, x)
            for product in ("all", "half", "prop", "abs"):
                for delta in (0.0, 1.0):
                    balances(LRP(product=product, delta=delta))(model, x)
            cells.append("✓")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    """Print the table, or write it into the page."""
    made = f"{table()}\n\n{options()}\n\n### As published\n\n{ABOUT.strip()}\n\n{published()}"
    if "--write" not in sys.argv:
        print(made)
        return
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{made}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
