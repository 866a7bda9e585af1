"""The paper's rules as tensor functions."""
