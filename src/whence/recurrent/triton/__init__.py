"""The GPU path: a layer's steps in Triton. Most files here need Triton, which comes with PyTorch's GPU builds."""
