"""Tells explanations, phrases and inspections how to display themselves: coloured text when printed, HTML in a notebook."""

from whence.explanation import Explanation, Explanations
from whence.inspection import Inspection
from whence.phrase import Phrases, PhraseTree
from whence.render import inspection, phrases
from whence.render.html import notebook, notebook_list
from whence.render.terminal import terminal, terminal_list

Explanation.displays.update(text=terminal, html=notebook)
Explanations.displays.update(text=terminal_list, html=notebook_list)
Inspection.displays.update(text=inspection.terminal, html=inspection.notebook)
Phrases.displays.update(text=phrases.terminal, html=phrases.notebook)
PhraseTree.displays.update(text=phrases.terminal, html=phrases.notebook)
