"""Batches where the training loop wants them."""
