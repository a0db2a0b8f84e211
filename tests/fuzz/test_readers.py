"""Whatever a file holds: it is read, or refused in one line."""

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.fuzz.hostile import LONGEST_LINE, ON_COMMAND_LINE
from tests.fuzz.mutations import mutated
from tests.fuzz.readers import READERS, REFUSALS, Reader

MUTATIONS = 12
"""In the quick suite; `python -m tests.fuzz.run` makes as many as there is time for."""


@pytest.mark.parametrize("name", READERS)
def test_spoilt_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    """The valid file is read; what is made of it is read or refused, nothing else."""
    reader = READERS[name]
    path = tmp_path / reader.file
    seed = reader.seed()
    path.write_bytes(seed)
    assert reader.read(path) is not None
    chance = random.Random(name)
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(seed, chance))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            said = refusal(reader, path)
        assert len(said) < LONGEST_LINE
        assert len(said.splitlines()) <= 1, said


def refusal(reader: Reader, path: Path) -> str:
    """Return why a file is refused, nothing if it is read."""
    try:
        reader.read(path)
    except REFUSALS as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each file has a forked process of its own")
@pytest.mark.parametrize("name", ON_COMMAND_LINE)
def test_hostile_files_cost_what_they_weigh(name: str, root: Path) -> None:
    """The whole command: exit code 2, one line, at most 400 MiB and 10 s.

    From a small process: what is forked counts the memory of this one as its own.
    """
    command = [sys.executable, "-m", "tests.fuzz.hostile", name]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
