"""Which row is sample i of an epoch: selections, shards, permutations."""
