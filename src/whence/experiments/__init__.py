"""Work that brings data, models and explanations together."""
