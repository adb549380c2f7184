"""x"""

from typing import Any


def bench_page(bench: Any, diagnosis: Any) -> str:
    return ""
