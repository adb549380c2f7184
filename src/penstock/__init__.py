"""Penstock keeps the accelerator fed."""
