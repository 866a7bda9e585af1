"""From strings to tokens, and from tokens to ids."""
