"""Rows to samples and batches, read ahead by the C loader."""
