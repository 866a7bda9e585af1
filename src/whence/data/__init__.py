"""Data sets as they are read from disk."""
