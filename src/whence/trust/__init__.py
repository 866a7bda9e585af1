"""Which explanations can be trusted: methods measured on a model and its data, and on tasks whose answer is known."""
