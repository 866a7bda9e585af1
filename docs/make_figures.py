"""Draws the figures of docs/mathematics.md as SVG; every number in them is computed here.

`python docs/make_figures.py` writes docs/figures/mathematics-*.svg; `--output DIR` writes them elsewhere.
"""

import argparse
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

import torch

import whence
from whence.equations import Rules, absorbed_by_bias, coefficient, linear_epsilon, share

HERE = Path(__file__).parent / "figures"
# Seen alone, a drawing follows the reader's system; in the site, the site's style sheet takes the place of this one.
STYLE = """<style>
.ink { fill: #222; } .tip { fill: #777; } .line { stroke: #777; } .soft { fill: #e4e4e4; }
@media (prefers-color-scheme: dark) {
  .ink { fill: #ddd; } .tip { fill: #999; } .line { stroke: #999; } .soft { fill: #444; }
  .for { fill: #f4a097; } .against { fill: #8ab8e6; }
  .for-line { stroke: #e5706a; } .against-line { stroke: #6fa5da; }
}
</style>"""
FOR, AGAINST = "#b2182b", "#2166ac"
FILLS = {"line": "tip", "for-line": "for", "against-line": "against"}  # the class of an arrow's tip


def drawing(width: int, height: int, parts: Sequence[str]) -> str:
    """The parts as one SVG file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="system-ui, sans-serif" font-size="14"'
    return f"{head} {font}>{STYLE}\n" + "\n".join(parts) + "\n</svg>\n"


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "ink", size: int = 14) -> str:
    """A line of text; `kind` is "ink", "for" or "against"."""
    fill = {"for": f' fill="{FOR}"', "against": f' fill="{AGAINST}"'}.get(kind, "")
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} class="{kind}"{fill}>{lowered(escape(words))}</text>'


def lowered(words: str) -> str:
    """The words with what follows an underscore as a subscript: R_j, c_{t−1}."""
    return re.sub(r"_(?:\{([^}]*)\}|(\w))", r'<tspan dy="4" font-size="75%">\1\2</tspan><tspan dy="-4">&#8203;</tspan>', words)


def arrow(x1: float, y1: float, x2: float, y2: float, *, width: float = 1.5, kind: str = "line") -> str:
    """A line with a tip at its second end."""
    stroke = {"for-line": f' stroke="{FOR}"', "against-line": f' stroke="{AGAINST}"'}.get(kind, "")
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    ux, uy, tip = (x2 - x1) / length, (y2 - y1) / length, 6 + 1.2 * width
    end_x, end_y, half = x2 - 0.8 * tip * ux, y2 - 0.8 * tip * uy, 0.55 * tip
    corners = [
        (x2, y2),
        (x2 - tip * ux - half * uy, y2 - tip * uy + half * ux),
        (x2 - tip * ux + half * uy, y2 - tip * uy - half * ux),
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return (
        f'<path d="M{x1:g} {y1:g} L{end_x:.1f} {end_y:.1f}" class="{kind}"{stroke} stroke-width="{width:.1f}"/>'
        f'<polygon points="{points}" class="{FILLS[kind]}"{stroke.replace("stroke", "fill")}/>'
    )


def circle(x: float, y: float, label: str, *, radius: int = 22) -> str:
    """A neuron or an operation."""
    ring = f'<circle cx="{x:g}" cy="{y:g}" r="{radius}" class="soft"/>'
    return ring + text(x, y + 5, label, anchor="middle")


def signed(amount: float) -> tuple[str, str]:
    """A number with its sign, and the kind of its colour."""
    return f"{amount:+.2f}".replace("-", "−"), "for" if amount >= 0 else "against"


def neuron() -> str:
    """A weighted connection with three inputs and a bias, and what each gets of R_j = 1."""
    x, weight, bias = torch.tensor([[1.0, 0.5, 2.0]]), torch.tensor([[1.2, 1.6, -0.3]]), torch.tensor([0.6])
    rules = Rules()
    z = x @ weight.T + bias
    q = coefficient(z, r_out=torch.ones(1, 1), epsilon=rules.epsilon)
    got = linear_epsilon(x, weight, q=q, share=share(z, q=q, bias=bias, fan_in=3, rules=rules))[0].tolist()
    kept = absorbed_by_bias(bias, q=q, rules=rules).item()
    parts = [text(20, 24, "forward: contributions to the sum"), text(390, 24, "backward: R_j = 1 is shared out in proportion")]
    for left, names in (
        (20, [f"x{n} w{n} = {signed(v)[0]}" for n, v in zip("₁₂₃", (x * weight)[0].tolist(), strict=True)]),
        (390, None),
    ):
        for n, y in enumerate((60, 110, 160, 210)):
            label = f"x{'₁₂₃'[n]}" if n < 3 else "b"
            amount = ([*got, kept])[n]
            parts.append(circle(left + 110, y, label, radius=18))
            if names is not None:
                parts.append(
                    text(left + 84, y + 5, names[n] if n < 3 else f"b = {signed(bias.item())[0]}", anchor="end", size=13)
                )
                parts.append(arrow(left + 130, y, left + 226, 128 + (y - 135) * 0.12))
            else:
                words, kind = signed(amount)
                parts.append(
                    arrow(left + 226, 128 + (y - 135) * 0.12, left + 131, y, width=1 + 7 * abs(amount), kind=f"{kind}-line")
                )
                parts.append(text(left + 84, y + 5, words + (" absorbed" if n == 3 else ""), anchor="end", kind=kind, size=13))
        parts.append(circle(left + 250, 135, "z"))
        parts.append(text(left + 250, 178, f"z = {z.item():.2f}" if names else "R_j = 1", anchor="middle", size=13))
    return drawing(720, 240, parts)


def gate() -> str:
    """A product of gate and source: all relevance goes to the source."""
    parts = [
        circle(60, 50, "σ"), text(60, 92, "gate g = 0.7", anchor="middle", size=13),
        circle(60, 140, "s"), text(60, 182, "source s = −2", anchor="middle", size=13),
        circle(230, 95, "×"), text(230, 137, "g · s = −1.4", anchor="middle", size=13),
        arrow(84, 55, 206, 90), arrow(84, 135, 206, 100),
        circle(390, 50, "σ"), text(390, 92, "R_g = 0", anchor="middle", size=13),
        circle(390, 140, "s"), text(390, 182, "R_s = R", anchor="middle", kind="for", size=13),
        circle(560, 95, "×"), text(560, 137, "R", anchor="middle", kind="for", size=13),
        arrow(536, 102, 415, 135, width=6, kind="for-line"),
        text(145, 214, "forward", anchor="middle"), text(475, 214, "backward", anchor="middle"),
    ]  # fmt: skip
    return drawing(640, 226, parts)


def step() -> str:
    """One step of an LSTM with the way of relevance through it."""
    parts = [
        text(20, 70, "c_{t−1}"), text(672, 70, "c_t"),
        circle(180, 65, "×"), text(180, 28, "forget gate f", anchor="middle", size=13),
        circle(330, 65, "+"), text(346, 42, "N = 2", size=13),
        circle(330, 165, "×"), text(236, 170, "input gate i", anchor="end", size=13),
        circle(330, 250, "g"), text(362, 255, "candidate: tanh of a weighted sum, N = |x| + |h|", size=13),
        circle(480, 165, "tanh", radius=24), circle(600, 165, "×"), text(600, 122, "output gate o", anchor="middle", size=13),
        text(672, 170, "h_t"), text(200, 330, "x_t", anchor="middle"), text(460, 330, "h_{t−1}", anchor="middle"),
        arrow(180, 33, 180, 42), arrow(242, 165, 307, 165), arrow(600, 128, 600, 142),
        arrow(664, 165, 624, 165, width=3, kind="for-line"),
        arrow(577, 165, 506, 165, width=3, kind="for-line"),
        arrow(463, 147, 351, 80, width=3, kind="for-line"),
        arrow(664, 65, 354, 65, width=3, kind="for-line"),
        arrow(307, 65, 204, 65, width=4, kind="for-line"),
        arrow(157, 65, 66, 65, width=4, kind="for-line"),
        arrow(330, 88, 330, 142, width=2.5, kind="for-line"),
        arrow(330, 188, 330, 227, width=2.5, kind="for-line"),
        arrow(315, 268, 214, 312, width=1.8, kind="for-line"),
        arrow(345, 268, 446, 312, width=1.8, kind="for-line"),
    ]  # fmt: skip
    return drawing(720, 344, parts)


def ledger() -> str:
    """The relevance of a sentence's words, what was absorbed, and the score, as bars."""
    found = whence.explain("sst-bilstm", "neither funny nor suspenseful")
    rows = [*zip(found.tokens, found.relevance, strict=True), ("absorbed", sum(found.absorbed.values()))]
    scale, middle, parts, at = 130, 330, [], 0.0
    parts.append(f'<path d="M{middle} 14 V{34 * (len(rows) + 1) + 4}" class="line" stroke-width="1"/>')
    for n, (name, amount) in enumerate([*rows, ("score", found.score)]):
        start = 0.0 if name == "score" else at
        left, y = middle + scale * min(start, start + amount), 16 + 34 * n
        words, kind = signed(amount)
        colour = f'class="{kind}" fill="{FOR if amount >= 0 else AGAINST}"'
        parts.append(f'<rect x="{left:.1f}" y="{y}" width="{scale * abs(amount):.1f}" height="22" rx="2" {colour}/>')
        parts.append(text(200, y + 16, name, anchor="end"))
        parts.append(text(290, y + 16, words, anchor="end", kind=kind))
        at += amount
    return drawing(720, 34 * (len(rows) + 1) + 20, parts)


def stabiliser() -> str:
    """The part of relevance that z / (z + ε sign z) passes on, against z, for two ε."""
    left, right, top, bottom = 70, 690, 20, 200
    parts = [f'<path d="M{left} {bottom} H{right} M{left} {bottom} V{top}" fill="none" class="line" stroke-width="1"/>']
    z = torch.logspace(-4, 0, 121, dtype=torch.float64)

    def x_of(value: float) -> float:
        return left + (torch.log10(torch.tensor(value)).item() + 4) / 4 * (right - left)

    for value, label in ((1e-4, "0.0001"), (1e-3, "0.001"), (1e-2, "0.01"), (1e-1, "0.1"), (1.0, "1")):
        parts.append(text(x_of(value), bottom + 20, label, anchor="middle", size=12))
    parts += [text(left - 10, bottom - (bottom - top) * part + 4, f"{part:g}", anchor="end", size=12) for part in (0, 0.5, 1)]
    for epsilon, kind, y in ((1e-3, "for", 74), (1e-2, "against", 128)):
        passed = z * coefficient(z, r_out=torch.ones_like(z), epsilon=epsilon)
        points = " ".join(
            f"{x_of(a):.1f},{bottom - (bottom - top) * b:.1f}" for a, b in zip(z.tolist(), passed.tolist(), strict=True)
        )
        stroke = FOR if kind == "for" else AGAINST
        parts.append(f'<polyline points="{points}" fill="none" class="{kind}-line" stroke="{stroke}" stroke-width="2.5"/>')
        parts.append(text(x_of(epsilon) + 16, y + 40, f"ε = {epsilon:g}", kind=kind))
    parts.append(text((left + right) / 2, bottom + 42, "|z|", anchor="middle"))
    return drawing(720, 250, parts)


FIGURES = {"neuron": neuron, "gate": gate, "step": step, "ledger": ledger, "stabiliser": stabiliser}


def main() -> None:
    """Write all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE)
    folder: Path = parser.parse_args().output
    for name, draw in FIGURES.items():
        (folder / f"mathematics-{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
