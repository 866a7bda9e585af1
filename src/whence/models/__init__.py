"""Text classifiers in plain PyTorch, pipelines around them, and their files. Nothing here knows about relevance."""
