"""Bytes that nobody trusts, to plain values."""
