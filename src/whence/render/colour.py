"""The one colour scale: the paper's red for and blue against, full colour at the text's largest relevance."""

from typing import NamedTuple

from whence.explanation import Explanation

FOR = (178, 24, 43)  # a red and a blue that stay apart for colour-blind readers
AGAINST = (33, 102, 172)

# On a terminal, whose background may be dark or light, a weak shade is letters in a colour that reads well on both, and a
# strong one a box. Boxes go from a grey as dark as the full colours to these: paler ones would outshine them on a dark ground.
FOR_LETTERS = (204, 68, 68)
AGAINST_LETTERS = (45, 124, 196)
GREY = (80, 80, 80)
FAINT, BOXED = 0.08, 0.3  # below the first strength a word is left as it is, from the second on it is boxed
# Boxes for terminals of 256 colours, where the nearest to those mixtures are grey and purple.
FOR_STEPS = ((175, 95, 95), (175, 0, 0), (215, 0, 0))
AGAINST_STEPS = ((95, 95, 175), (0, 95, 175), (0, 95, 215))

RGB = tuple[int, int, int]


class Shade(NamedTuple):
    """How strongly a token is coloured, 0 to 1, and whether it speaks for the target."""

    strength: float
    is_for: bool

    @property
    def full(self) -> RGB:
        """The colour at full strength."""
        return FOR if self.is_for else AGAINST

    def mixed(self, background: RGB = (255, 255, 255)) -> RGB:
        """The colour on a background, of which a weak shade shows much."""
        red, green, blue = (
            round(ground + (full - ground) * self.strength) for full, ground in zip(self.full, background, strict=True)
        )
        return red, green, blue

    def on_terminal(self, *, has_256: bool) -> tuple[RGB | None, RGB | None]:
        """The letters' colour and the box's, on a background that is not known; None leaves the terminal's own."""
        if self.strength < FAINT:
            return None, None
        if self.strength < BOXED:
            return (FOR_LETTERS if self.is_for else AGAINST_LETTERS), None
        if has_256:
            steps = FOR_STEPS if self.is_for else AGAINST_STEPS
            return (255, 255, 255), steps[min(int((self.strength - BOXED) / (1 - BOXED) * len(steps)), len(steps) - 1)]
        return (255, 255, 255), self.mixed(GREY)

    @property
    def needs_white_text(self) -> bool:
        """Whether black text would be hard to read on it."""
        red, green, blue = self.mixed()
        return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def shades(explanation: Explanation) -> list[Shade]:
    """The shade of every token; without any relevance none is coloured."""
    largest = max((abs(value) for value in explanation.relevance), default=0.0)
    return [Shade(abs(value) / largest if largest else 0.0, value >= 0) for value in explanation.relevance]


def hexadecimal(colour: RGB) -> str:
    """A colour as #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def method_label(explanation: Explanation) -> str:
    """The method and its settings, in a few words."""
    settings = {key: value for key, value in explanation.method.items() if key != "name"}
    names = {"lrp": "LRP", "sa": "sensitivity analysis", "gi": "Gradient×Input"}
    label = names.get(str(explanation.method.get("name")), str(explanation.method.get("name")))
    shown = [f"{'ε' if key == 'epsilon' else 'δ' if key == 'delta' else key} = {value:g}" for key, value in settings.items()
             if isinstance(value, (int, float))]  # fmt: skip
    return one_line(f"{label} ({', '.join(shown)})" if shown else label)


def visible(text: str) -> str:
    """Text in which control characters and marks that turn the reading direction show as symbols and do nothing."""
    return text.translate(_SYMBOLS)


def one_line(name: str) -> str:
    """A class, a model, a path or another name as visible text on one line."""
    return visible(name).translate({9: 0x2409, 10: 0x240A})


# Controls behind ASCII's, marks that turn the reading direction, and halves of characters.
_SILENT = [*range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000), 0x200E, 0x200F, 0x61C]
_SYMBOLS = {**{code: 0x2400 + code for code in range(32)}, **dict.fromkeys(_SILENT, 0xFFFD), 9: 9, 10: 10}
