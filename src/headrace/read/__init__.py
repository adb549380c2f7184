"""Bytes of samples from packed shards and from anything that is indexed in place."""
