"""Flows between machines, over ZeroMQ: the protocol and its two ends."""
