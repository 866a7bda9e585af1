"""Measurements of what an explanation costs: relative to the prediction, with growing inputs, and on a whole test set."""
