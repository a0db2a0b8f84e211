"""Public names and signatures change on purpose only."""

from difflib import unified_diff

from tests.contract.public_names import FILE, public_names

RENEW = """public names have changed. If that is meant, CHANGELOG.md tells those who call them, and
`python -m tests.contract.public_names` writes tests/contract/public_names.txt anew.
"""


def test_public_names_are_those_of_the_list() -> None:
    """Each with its parameters, defaults and types."""
    listed, found = FILE.read_text(), public_names()
    changed = unified_diff(listed.splitlines(), found.splitlines(), "the list", "moeopt", "", "", 0)
    assert listed == found, RENEW + "\n".join(changed)


def test_the_list_says_how_things_are_called() -> None:
    """Parameters with their defaults, fields, properties and class methods."""
    lines = FILE.read_text().splitlines()
    assert any(line.startswith("solve(instance: ") and "seed: int=0" in line for line in lines)
    assert "class Result" in lines
    assert any(line.startswith("    classmethod from_arrays(") for line in lines)
