"""Other libraries' names over Penstock's own parts; each is imported on request."""
