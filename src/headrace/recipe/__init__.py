"""The user's transforms, divided: what the plan draws, what the core does, what stays in Python."""
