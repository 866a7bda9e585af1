"""Tells explanations, phrases and the like how to display themselves: coloured text when printed, HTML in a notebook."""

from whence.explanation import Explanation
from whence.explanations import Explanations
from whence.inspection import Inspection
from whence.phrase import Phrases, PhraseTree
from whence.render import inspection, phrases, summaries
from whence.render.formats import save
from whence.render.html import notebook, notebook_list
from whence.render.terminal import terminal, terminal_list
from whence.summary import Summary

Explanation.displays.update(text=terminal, html=notebook)
Explanations.displays.update(text=terminal_list, html=notebook_list)
Explanations.writers.update(save=save)
Inspection.displays.update(text=inspection.terminal, html=inspection.notebook)
Phrases.displays.update(text=phrases.terminal, html=phrases.notebook)
PhraseTree.displays.update(text=phrases.terminal, html=phrases.notebook)
Summary.displays.update(text=summaries.terminal, html=summaries.notebook)
