"""Whether explanations can be trusted."""
