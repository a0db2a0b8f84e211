"""Machines and models by name: one JSON file each."""

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from moeopt.errors import InputError
from moeopt.problems.envelope import Frozen
from moeopt.problems.json_files import read_object
from moeopt.problems.wording import describe
from moeopt.sim.machine import Machine
from moeopt.sim.model_shape import ModelShape

M = TypeVar("M", bound=Frozen)

FOLDER = Path(__file__).parent


def names(kind: str) -> list[str]:
    """Return the names of the presets of a kind: "machines", "models" or "workloads"."""
    return sorted(path.stem for path in (FOLDER / kind).glob("*.json"))


def get_machine(name_or_file: str | Path) -> Machine:
    """Return a machine preset, or the machine in a JSON file.

    Raises
    ------
    InputError
        If there is neither such a preset nor such a file, or the file is not a valid machine.
    """
    return find("machines", Machine, name_or_file)


def get_model(name_or_file: str | Path) -> ModelShape:
    """Return a model preset, or the model shape in a JSON file; errors as in `get_machine`."""
    return find("models", ModelShape, name_or_file)


def find(kind: str, model: type[M], name_or_file: str | Path) -> M:
    """Return the preset called so, or what the file of that name holds."""
    known = names(kind)
    if str(name_or_file) in known:
        path = FOLDER / kind / f"{name_or_file}.json"
    else:
        path = Path(name_or_file)
        if not _is_file(path):
            choice = ", ".join(known)
            raise InputError(f"{kind[:-1]}: {str(path)!r} is neither a file nor one of {choice}")
    try:
        return model.model_validate(read_object(path))
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, a folder closed to us
        return False
