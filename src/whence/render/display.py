"""Gives explanations their looks: coloured when printed, as HTML in a notebook."""

from whence.explanation import Explanation
from whence.render.html import notebook
from whence.render.terminal import terminal

Explanation.displays.update(text=terminal, html=notebook)
