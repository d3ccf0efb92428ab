"""Rows to the files of other formats: a sink writes what a dataset holds as what somebody else reads."""
