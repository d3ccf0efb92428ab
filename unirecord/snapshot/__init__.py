"""A set of parts: what a path names, the manifest, one opened part, many as one row space."""
