"""The plain recurrent network: forward with a tape, and the relevance sweep over it."""
