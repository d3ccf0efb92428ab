"""Records to parts: the writer, row groups, the index file, publication."""
