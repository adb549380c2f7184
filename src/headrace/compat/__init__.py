"""Other libraries' names over Headrace's own parts; each is imported on request."""
