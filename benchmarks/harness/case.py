"""The cases: what each defines, and finding them."""

from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Protocol, cast

from benchmarks.rooms.core import InstanceEnvelope

from .measurement import Contender


class Case(Protocol):
    """What a file in `benchmarks/cases` defines.

    Attributes
    ----------
    DESCRIPTION
        One line.
    BASELINE
        The contender that the others' times are divided by.
    """

    DESCRIPTION: str
    BASELINE: str

    def contenders(self) -> Mapping[str, Contender]:
        """Return the contenders by name, in the order of the table."""

    def instances(self) -> Sequence[InstanceEnvelope]:
        """Return the instances; their names differ."""


def case_names(folder: Path) -> list[str]:
    """Return the names of the cases in a folder: one per Python file."""
    return sorted(path.stem for path in folder.glob("*.py"))


def load_case(folder: Path, name: str) -> Case:
    """Import a case from its file."""
    spec = spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder / name}.py cannot be imported")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Case, module)


def parts(name: str, case: Case) -> tuple[Mapping[str, Contender], Sequence[InstanceEnvelope]]:
    """Return a case's contenders and instances.

    Raises
    ------
    ValueError
        If there is nothing to measure, or a name does not say which is meant.
    """
    contenders, instances = case.contenders(), case.instances()
    if case.BASELINE not in contenders:
        raise ValueError(f"{name}: the baseline {case.BASELINE!r} is not one of the contenders")
    if len({instance.name for instance in instances}) < max(1, len(instances)):
        raise ValueError(f"{name}: no instances, or two of the same name")
    return contenders, instances
