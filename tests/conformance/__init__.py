"""Every loader against an oracle that knows the written records and docs/spec/order.md alone, at random."""
