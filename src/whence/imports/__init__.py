"""Models of other frameworks, read from their files as PyTorch modules. Nothing in a file is run."""
