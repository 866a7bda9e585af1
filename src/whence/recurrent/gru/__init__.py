"""The GRU: forward with a tape, and the relevance sweep over it."""
