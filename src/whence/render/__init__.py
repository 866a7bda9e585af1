"""Explanations in, strings and figures out; all from one colour scale."""
