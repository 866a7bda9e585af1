"""One run of a user's model under PyTorch's autograd, and the ways back through it."""
