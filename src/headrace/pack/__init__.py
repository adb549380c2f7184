"""The on-disk format: tar shards, an Arrow index per shard, a manifest written last."""
