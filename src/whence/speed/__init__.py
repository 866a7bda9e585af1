"""Measuring what an explanation costs: beside the prediction, as inputs grow, and on a whole test set."""
