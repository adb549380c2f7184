"""Threads, processes and queues: everything that runs beside the caller."""
