"""Measurements on models and their explanations: accuracy, word deletion, position, word rankings."""
