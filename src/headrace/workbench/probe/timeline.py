"""How the loop of a process spent its time, without gaps: each moment has one kind."""

from __future__ import annotations

import time

STARTUP, FIRST, WAIT = "startup", "first batch", "waiting"
COMPUTE, BETWEEN = "computing", "between loops"
KINDS = (STARTUP, FIRST, WAIT, COMPUTE, BETWEEN)
_BINS = 400


class Timeline:
    """Seconds of each kind, in total and in bins; the width of bins doubles when there are too many.

    Times are from the monotonic clock, which all processes of a machine share.
    """

    def __init__(self, begin: float | None = None) -> None:
        self.begin = time.monotonic() if begin is None else begin
        self.width = 0.05
        self.bins: list[dict[str, float]] = []
        self.totals = dict.fromkeys(KINDS, 0.0)
        self._last = self.begin
        self._kind = STARTUP

    def mark(self, kind: str, now: float | None = None) -> None:
        """End the current kind and begin `kind`."""
        now = time.monotonic() if now is None else now
        self._spend(self._kind, self._last, now)
        self._last, self._kind = now, kind

    def rename(self, kind: str) -> None:
        """Change the current kind since its beginning."""
        self._kind = kind

    def close(self) -> None:
        """Count the current kind up to now."""
        self.mark(self._kind)

    def snapshot(self) -> dict[str, object]:
        """Return everything so far; safe to call from another thread than the one that marks."""
        totals, kind, last = dict(self.totals), self._kind, self._last
        totals[kind] += max(0.0, time.monotonic() - last)
        bins = [dict(found) for found in list(self.bins)]
        return {"begin": self.begin, "totals": totals, "width": self.width, "bins": bins}

    def _spend(self, kind: str, start: float, end: float) -> None:
        self.totals[kind] += end - start
        while end - self.begin > self.width * _BINS:
            self._halve()
        place = start - self.begin
        stop = end - self.begin
        while place < stop:
            number = int(place / self.width + 1e-9)
            until = min((number + 1) * self.width, stop)
            while len(self.bins) <= number:
                self.bins.append({})
            found = self.bins[number]
            found[kind] = found.get(kind, 0.0) + max(until - place, 0.0)
            place = max(until, place + 1e-9)

    def _halve(self) -> None:
        merged = []
        for left, right in zip(self.bins[::2], [*self.bins[1::2], {}]):
            merged.append({k: left.get(k, 0.0) + right.get(k, 0.0) for k in {**left, **right}})
        self.bins, self.width = merged, self.width * 2
