"""Plain PyTorch models, their training and their files; none has ever heard of relevance."""
