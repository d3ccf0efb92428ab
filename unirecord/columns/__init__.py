"""Scalar columns, read from the indexes alone."""
