"""What a model has learned, read from an explained corpus: its words, where relevance lies, its errors."""
