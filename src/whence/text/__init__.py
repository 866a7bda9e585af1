"""Strings to tokens, tokens to ids."""
