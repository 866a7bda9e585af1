"""Explanations as text, HTML, SVG, LaTeX and figures, all with the same colours."""
