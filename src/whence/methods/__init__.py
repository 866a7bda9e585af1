"""Ways to explain a score, each a frozen value whose fields are its settings."""
