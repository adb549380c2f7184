"""Build pipelines over any iterable: each stage takes items and yields items."""

from headrace.errors import ReceiverLostError
from headrace.flow.flow import Flow
from headrace.flow.remote.protocol import Keys, make_keys
from headrace.work.seeding import item_rng

__all__ = ["Flow", "Keys", "ReceiverLostError", "item_rng", "make_keys"]
