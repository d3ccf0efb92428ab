"""One driver per peer, each run in that peer's environment: `write` its files, `open_reader` them."""
