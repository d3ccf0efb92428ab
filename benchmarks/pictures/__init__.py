"""Drivers of the pictures suite: each is a module with `batches(data, threads)`, batches for ever."""
