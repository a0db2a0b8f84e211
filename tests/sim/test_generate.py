"""What holds for the generator of every problem: reproducible, from a file as it was, seeds count."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

import moeopt
from moeopt.core.errors import InputError

ROOT = Path(__file__).parents[2]

FAMILIES = {
    path.parent.name: tomllib.loads(path.read_text())["family"]
    for path in sorted((ROOT / "instances").glob("*/families.toml"))
}


def drawn(problem: str) -> dict[str, Any]:
    """Return arguments of the library's first family of a problem that needs no trace."""
    for family in FAMILIES[problem]:
        arguments = {name: values[0] for name, values in family["grid"].items()}
        arguments = family["fixed"] | arguments
        if "trace" not in arguments:
            return arguments
    raise AssertionError(f"{problem}: every family needs a trace")


@pytest.mark.parametrize("problem", FAMILIES)
def test_the_same_arguments_give_the_same_file(problem: str, tmp_path: Path) -> None:
    """Made twice, plain and compressed; what is loaded is what was saved."""
    first, second = (moeopt.generate(problem, **drawn(problem)) for _ in range(2))
    for name in ("x.json", "x.json.gz"):
        files = tmp_path / f"first-{name}", tmp_path / f"second-{name}"
        moeopt.save(first, files[0])
        moeopt.save(second, files[1])
        assert files[0].read_bytes() == files[1].read_bytes()
        assert moeopt.load(files[0]) == first


@pytest.mark.parametrize("problem", FAMILIES)
def test_another_seed_gives_another_instance(problem: str) -> None:
    """Where anything is drawn: under another name, too, unless one is given."""
    made = [moeopt.generate(problem, **drawn(problem) | {"seed": seed}) for seed in range(4)]
    bare = {str(one.model_dump(exclude={"name", "provenance"})) for one in made}
    assert len(bare) > 1
    assert len({one.name for one in made}) > 1
    assert moeopt.generate(problem, **drawn(problem), name="mine").name == "mine"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"no_option": 64}, "no_option: is not a known key"),
        ({"seed": -1}, "seed: must not be negative, not -1"),
        ({"machine": "abacus"}, "machine: 'abacus' is neither a file nor one of"),
        ({"model": "abacus"}, "model: 'abacus' is neither a file nor one of"),
        ({"name": "x" * 300}, "name: "),
    ],
)
@pytest.mark.parametrize("problem", FAMILIES)
def test_what_no_generator_takes(problem: str, change: dict[str, Any], says: str) -> None:
    """One line, before anything is made."""
    with pytest.raises(InputError) as caught:
        moeopt.generate(problem, **drawn(problem) | change)
    assert says in str(caught.value)
    assert str(caught.value).isprintable()
