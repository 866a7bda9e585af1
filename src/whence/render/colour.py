"""Every colour of whence: the scale of relevance (red for, blue against), and the colours of figures and pages.

A word has full colour at its text's largest relevance.
"""

from typing import Literal, NamedTuple

from whence.explanation import Explanation

RGB = tuple[int, int, int]
FOR: RGB = (178, 24, 43)  # a red and a blue that colour-blind readers can tell apart
AGAINST: RGB = (33, 102, 172)
WHITE: RGB = (255, 255, 255)

# A terminal's background may be dark or light. So weak relevance colours the letters, in a colour that reads well on both, and
# strong relevance gives the word a box. Boxes go from a dark grey to full colour: pale boxes would outshine full ones on a dark
# background.
FOR_LETTERS: RGB = (204, 68, 68)
AGAINST_LETTERS: RGB = (45, 124, 196)
GREY: RGB = (80, 80, 80)
FAINT, BOXED = 0.08, 0.3  # a strength below the first leaves a word as it is; from the second on it gets a box
# Boxes for terminals with 256 colours, whose nearest colours to these mixtures are grey and purple.
FOR_STEPS: tuple[RGB, ...] = ((175, 95, 95), (175, 0, 0), (215, 0, 0))
AGAINST_STEPS: tuple[RGB, ...] = ((95, 95, 175), (0, 95, 175), (0, 95, 215))


def hexadecimal(colour: RGB) -> str:
    """A colour as #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


# Figures: the curves, which colour-blind readers and readers of a grey print can tell apart; letters, notes and lines.
SERIES = (
    hexadecimal(FOR), hexadecimal(AGAINST), "#1b7837", "#e08214", "#666666", "#762a83",
    "#01a3a4", "#c51b7d", "#8c510a", "#000000",
)  # fmt: skip
PAPER, INK, MUTED, NOTE, GRID, RULE = "#ffffff", "#222222", "#555555", "#777777", "#dddddd", "#bbbbbb"
COUNTS = "Blues"  # matplotlib's colour map for counts
DIVERGING = "RdBu_r"  # matplotlib's colour map from blue (against) to red (for)

# The paper's report.
REPORT = {
    "paper": PAPER, "ink": INK, "caption": "#444444", "small": MUTED, "word": "#f0f0ec",
    "menu": "#f6f6f4", "menu_ink": "#333333", "menu_hover": "#e6e6e0", "line": GRID, "row": "#e4e4e4", "frame": "#eeeeee",
    "yes": SERIES[2], "no": SERIES[0], "undecided": NOTE, "warning": "#fff4d6", "warning_line": SERIES[3],
}  # fmt: skip


class Shade(NamedTuple):
    """How strongly a token is coloured, 0 to 1, and whether it speaks for the target."""

    strength: float
    is_for: bool

    @property
    def full(self) -> RGB:
        """The colour at full strength."""
        return FOR if self.is_for else AGAINST

    def mixed(self, background: RGB = WHITE) -> RGB:
        """The colour mixed with a background: the weaker the shade, the more of the background."""
        red, green, blue = (
            round(ground + (full - ground) * self.strength) for full, ground in zip(self.full, background, strict=True)
        )
        return red, green, blue

    def on_terminal(self, *, has_256: bool) -> tuple[RGB | None, RGB | None]:
        """The colours of the letters and of the box on an unknown background; None keeps the terminal's own."""
        if self.strength < FAINT:
            return None, None
        if self.strength < BOXED:
            return (FOR_LETTERS if self.is_for else AGAINST_LETTERS), None
        if has_256:
            steps = FOR_STEPS if self.is_for else AGAINST_STEPS
            return WHITE, steps[min(int((self.strength - BOXED) / (1 - BOXED) * len(steps)), len(steps) - 1)]
        return WHITE, self.mixed(GREY)

    @property
    def letters(self) -> Literal["white", "black"]:
        """The colour of letters that are easy to read on it."""
        return "white" if _luminance(self.mixed()) < EVEN else "black"


EVEN = 0.179  # the luminance at which white and black letters have the same contrast


def _luminance(colour: RGB) -> float:
    """Relative luminance, 0 to 1, as contrast is measured on the web (WCAG)."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (each / 255 for each in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def shades(explanation: Explanation) -> list[Shade]:
    """The shade of every token; if all relevance is 0, none is coloured."""
    largest = max((abs(value) for value in explanation.relevance), default=0.0)
    return [Shade(abs(value) / largest if largest else 0.0, value >= 0) for value in explanation.relevance]


def visible(text: str) -> str:
    """The text with symbols in place of control characters and of marks that change the reading direction."""
    return text.translate(_SYMBOLS)


def one_line(name: str) -> str:
    """The name of a class, a model or a file as visible text on one line."""
    return visible(name).translate({9: 0x2409, 10: 0x240A})


# Control characters beyond ASCII, marks that change the reading direction, and lone surrogates.
_SILENT = [*range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000), 0x200E, 0x200F, 0x61C]
_SYMBOLS = {**{code: 0x2400 + code for code in range(32)}, **dict.fromkeys(_SILENT, 0xFFFD), 9: 9, 10: 10}
