"""The comparison with the public measurements, made once: it costs most of a second."""

import pytest

from benchmarks.measured.comparison import Comparison, compare


@pytest.fixture(scope="session")
def comparison() -> Comparison:
    """Return the comparison with the package's own table."""
    return compare()
