"""Stages that DataFlows need and Flow has no method for."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.flow.stage import At, Items, Length, Opener, Stage, opened


@dataclass(frozen=True)
class RepeatItem(Stage):
    """Each item `times` times in a row."""

    times: int

    def open(self, inputs: tuple[Opener, ...], at: At) -> Items:
        with opened(inputs[0], at) as items:
            for item in items:
                for _ in range(self.times):
                    yield item

    def length(self, lengths: tuple[Length, ...]) -> Length:
        return None if lengths[0] is None else lengths[0] * self.times

    @property
    def name(self) -> str:
        return f"repeat_item({self.times})"

    @property
    def exactness(self) -> str:
        return f"{self.times} times each"
