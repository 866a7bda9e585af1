"""Explanations in, numbers out."""
