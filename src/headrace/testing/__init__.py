"""Provide the tests that every source and every flow passes, for classes that inherit them.

    class TestMyFormat(headrace.testing.SourceContract): ...

Importing this module needs pytest, which the extra `testing` installs.
"""

from headrace.errors import MissingExtraError

try:
    import pytest
except ModuleNotFoundError:
    raise MissingExtraError("pytest", "testing") from None

# Before the imports below, so that a failed assert shows its values.
pytest.register_assert_rewrite(f"{__name__}.flow_contract", f"{__name__}.source_contract")

from headrace.testing.flow_contract import FlowContract
from headrace.testing.source_contract import SourceContract

__all__ = ["FlowContract", "SourceContract"]
