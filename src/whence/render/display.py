"""Tells explanations and inspections how to display themselves: coloured text when printed, HTML in a notebook."""

from whence.explanation import Explanation, Explanations
from whence.inspection import Inspection
from whence.render import inspection
from whence.render.html import notebook, notebook_list
from whence.render.terminal import terminal, terminal_list

Explanation.displays.update(text=terminal, html=notebook)
Explanations.displays.update(text=terminal_list, html=notebook_list)
Inspection.displays.update(text=inspection.terminal, html=inspection.notebook)
