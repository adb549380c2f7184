"""Bytes by name, read by offset and within a limit."""
