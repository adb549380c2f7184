"""Laws are tested without a deadline: it would measure how busy the machine is."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
