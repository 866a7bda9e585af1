"""Data sets: SST, word vectors, a sentiment lexicon, and toy tasks with known relevance."""
