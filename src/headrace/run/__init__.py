"""Composable flows over any iterable: each stage takes items and gives items."""
