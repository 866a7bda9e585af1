"""A tree of phrases as an SVG drawing: the words in a row, and above them a box for every phrase, as wide as its words."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from whence.phrase import Node, PhraseTree
from whence.render.colour import MUTED, PAPER, RULE, Shade, hexadecimal
from whence.render.labels import method_label
from whence.render.svg import _columns, _legal

SIZE, ADVANCE, PAD, GAP, ROW, TOP = 14, 8.5, 7.0, 3.0, 30, 34  # pixels; of a monospaced font, the width of a letter
NARROWEST = 52.0  # so that a number fits


def drawing(tree: PhraseTree) -> str:
    """The drawing; its text stays text, and it holds no script."""
    explanation = tree.explanation
    words = [_legal(token.replace("\n", "␊")) for token in explanation.tokens]
    edges = _edges(words)
    heights = _heights(tree.root)
    highest = heights[_span(tree.root)]
    largest = max(abs(phrase.relevance) for phrase in tree.phrases())
    boxes = [_box(node, edges, (highest - heights[_span(node)]) * ROW + TOP, largest) for node in tree.root]
    bottom = TOP + (highest + 1) * ROW
    labels = [_text(word, (edges[n] + edges[n + 1]) / 2, bottom + 16, "black", SIZE) for n, word in enumerate(words)]
    label = f"{method_label(explanation)} for {explanation.question}, score {explanation.score:+.3f}"
    width = max(edges[-1] + 12, 24 + 7.3 * len(label))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {bottom + 30}" width="{width:.0f}" '
        f'height="{bottom + 30}" font-family="monospace" role="img" aria-label={quoteattr(_legal(label))}>'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<text x="12" y="20" font-size="12" fill="{MUTED}">{escape(_legal(label))}</text>{"".join(boxes + labels)}</svg>'
    )


def _edges(words: Sequence[str]) -> list[float]:
    """Where the words begin, and where the last one ends."""
    edges = [12.0]
    for word in words:
        edges.append(edges[-1] + max(NARROWEST, _columns(word) * ADVANCE + 2 * PAD))
    return edges


def _heights(root: Node) -> Mapping[tuple[int, int], int]:
    """By span, how many rows a phrase lies above its words; a word itself lies in row 0."""
    found: dict[tuple[int, int], int] = {}
    for node in reversed(list(root)):  # parts come after their phrase
        found[_span(node)] = 1 + max(found[_span(part)] for part in node.parts) if node.parts else 0
    return found


def _span(node: Node) -> tuple[int, int]:
    return node.phrase.start, node.phrase.end


def _box(node: Node, edges: Sequence[float], y: float, largest: float) -> str:
    phrase = node.phrase
    shade = Shade(abs(phrase.relevance) / largest if largest else 0.0, phrase.relevance >= 0)
    left, right = edges[phrase.start] + GAP / 2, edges[phrase.end] - GAP / 2
    joined = f", joined {node.joint:+.4f}" if node.parts else ""
    note = f"<title>{escape(_legal(phrase.text))}: {phrase.relevance:+.4f}{joined}</title>"
    box = (
        f'<rect x="{left:.1f}" y="{y:.0f}" width="{right - left:.1f}" height="{ROW - GAP:.0f}" rx="4" '
        f'fill="{hexadecimal(shade.mixed())}" stroke="{RULE}" stroke-width="0.6"/>'
    )
    return f"<g>{note}{box}{_text(f'{phrase.relevance:+.2f}', (left + right) / 2, y + 18, shade.letters, 12)}</g>"


def _text(text: str, x: float, y: float, colour: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="middle">{escape(text)}</text>'
