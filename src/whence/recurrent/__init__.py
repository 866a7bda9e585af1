"""Recurrent layers as a whole: forward with a tape, and relevance back through time, on the fastest path for each cell."""
