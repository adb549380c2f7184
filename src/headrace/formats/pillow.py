"""Pillow on bytes that may be anything: whatever it raises for them is the image's fault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import SourceError


@contextmanager
def blame_image(fault: str) -> Iterator[None]:
    """Turns what Pillow raises inside into a SourceError: the `fault`, and what Pillow says.

        with blame_image("does not decode"), Image.open(io.BytesIO(data)) as image:
            image.load()

    A lack of memory passes: that is the machine's fault.
    """
    try:
        yield
    except (MemoryError, SourceError):
        raise
    except Exception as error:  # noqa: BLE001
        # Intentional: for bad data Pillow's readers raise nearly everything (OSError, SyntaxError,
        # TypeError, RuntimeError, NotImplementedError, struct.error, ...).
        raise SourceError(f"{fault}: {_say_why(error)}") from None


def _say_why(error: Exception) -> str:
    """The first line of what Pillow says, without the address of the buffer that it read."""
    text = re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))
    return text.partition("\n")[0] or type(error).__name__
