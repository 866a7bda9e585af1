"""Explanations as a LaTeX document with a coloured box for every token; it needs only LaTeX's color package."""

from collections.abc import Sequence

from whence.explanation import Explanation
from whence.render.colour import one_line, shades, visible
from whence.render.labels import method_label

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": "{-}",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "—": "---",
    "–": "--",
    "…": r"\dots{}",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "×": r"$\times$",
}

HEAD = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{textcomp}
\usepackage{color}
\setlength{\parindent}{0pt}
\setlength{\fboxsep}{1.5pt}
\newcommand{\struck}[1]{\setbox0\hbox{#1}\rlap{\rule[.5ex]{\wd0}{.5pt}}\box0}
\newcommand{\token}[3]{\colorbox[rgb]{#1}{\strut\textcolor{#2}{#3}}\allowbreak}
\begin{document}
\raggedright
"""


def document(groups: Sequence[Sequence[Explanation]]) -> str:
    """A complete document of all explanations."""
    return latex([explanation for group in groups for explanation in group])


def latex(explanations: Sequence[Explanation]) -> str:
    """A complete document."""
    return HEAD + "\n\n\\bigskip\n".join(map(_paragraph, explanations)) + "\n\\end{document}\n"


def _paragraph(explanation: Explanation) -> str:
    if explanation.error:
        place = "" if explanation.row is None else f"row {explanation.row}: "
        return f"{{\\small {escaped(one_line(place + explanation.error))}}}"
    strong = shades(explanation)
    label = f"{method_label(explanation)} for {explanation.question}, score {explanation.score:+.3f}"
    parts = [f"{{\\small {escaped(label)}}}\\\\[2pt]\n"]
    for piece, number in explanation.pieces():
        if number is None:
            parts.append("\\par\n" if "\n" in piece else " \\ ")
            continue
        colour = ",".join(f"{part / 255:.3f}" for part in strong[number].mixed())
        word = escaped(piece)
        word = f"\\underline{{{word}}}" if explanation.unknown[number] else word
        word = f"\\struck{{{word}}}" if number in explanation.deleted else word
        parts.append(f"\\token{{{colour}}}{{{strong[number].letters}}}{{{word}}}")
    if explanation.doubt:
        parts.append(f"\\par\n{{\\small in doubt: {escaped(one_line(explanation.doubt))}}}")
    return "".join(parts)


def escaped(text: str) -> str:
    """Text escaped for LaTeX; characters that its fonts lack are shown by their code point."""
    return "".join(_character(character) for character in visible(text))


def _character(character: str) -> str:
    if character in SPECIAL:
        return SPECIAL[character]
    if character in " \t\n":
        return r"\ "
    if 32 < ord(character) < 127 or "À" <= character <= "ÿ":
        return character
    return f"{{\\small[U+{ord(character):04X}]}}"
