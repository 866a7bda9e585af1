"""Recurrent layers as a whole: forward with a tape, and relevance back through time."""
