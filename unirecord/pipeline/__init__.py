"""Operators in parallel, from stored samples to what the training step takes; the order stays exact."""
