"""Penstock keeps the accelerator fed."""

from penstock.run.flow import Flow

__all__ = ["Flow"]
