"""Composable flows over any iterable: takes items, gives items, knows no other stage."""
