"""What the tests of several generators share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place for a file that is written again and again."""
    return tmp_path_factory.mktemp("generated") / "instance.json.gz"
