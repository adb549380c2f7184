"""The on-disk format: manifest, index, tar, keys, durable writes, checked rows, verify."""
