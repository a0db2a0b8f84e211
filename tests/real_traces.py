"""Where real routing traces lie: in the folder that MOEOPT_TRACES names, and nowhere else."""

import os
from pathlib import Path

import pytest


def traces_folder() -> Path | None:
    """Return the folder of real traces; None if none is named."""
    named = os.environ.get("MOEOPT_TRACES")
    return Path(named) if named else None


def real_trace_file(name: str) -> Path:
    """Return a real trace's file, or skip the test."""
    folder = traces_folder()
    if folder is None or not (folder / name).is_file():
        pytest.skip(f"no trace {name}: MOEOPT_TRACES names the folder of the real traces")
    return folder / name
