"""The one colour scale: the paper's red for and blue against, full colour at the text's largest relevance."""

from typing import NamedTuple

from whence.explanation import Explanation

FOR = (178, 24, 43)  # a red and a blue that stay apart for colour-blind readers
AGAINST = (33, 102, 172)


class Shade(NamedTuple):
    """How strongly a token is coloured, 0 to 1, and whether it speaks for the target."""

    strength: float
    is_for: bool

    @property
    def full(self) -> tuple[int, int, int]:
        """The colour at full strength."""
        return FOR if self.is_for else AGAINST

    def mixed(self, background: tuple[int, int, int] = (255, 255, 255)) -> tuple[int, int, int]:
        """The colour on a background, of which a weak shade shows much."""
        red, green, blue = (
            round(ground + (full - ground) * self.strength) for full, ground in zip(self.full, background, strict=True)
        )
        return red, green, blue

    @property
    def needs_white_text(self) -> bool:
        """Whether black text would be hard to read on it."""
        red, green, blue = self.mixed()
        return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def shades(explanation: Explanation) -> list[Shade]:
    """The shade of every token; without any relevance none is coloured."""
    largest = max((abs(value) for value in explanation.relevance), default=0.0)
    return [Shade(abs(value) / largest if largest else 0.0, value >= 0) for value in explanation.relevance]


def hexadecimal(colour: tuple[int, int, int]) -> str:
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
