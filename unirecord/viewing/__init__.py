"""Looking at a dataset in a browser: a small server of pages, for this machine alone."""
