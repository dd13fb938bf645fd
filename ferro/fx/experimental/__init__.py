"""What libraries ask of PyTorch's tracers of operations: none is at work."""
