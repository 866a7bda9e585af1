"""What a model has learned: words, positions, comparisons, examples and errors, read from an explained corpus."""
