"""Every loader against an oracle that knows only the written records and docs/order.md, in random configurations."""
