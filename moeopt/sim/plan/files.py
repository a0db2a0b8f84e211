"""Reading plan files."""

from pathlib import Path

from pydantic import ValidationError

from moeopt.errors import InputError
from moeopt.problems.json_files import read_object
from moeopt.problems.wording import describe
from moeopt.sim.plan.schema import Plan


def load_plan(path: str | Path) -> Plan:
    """Read a plan from a ``.json`` or ``.json.gz`` file.

    Raises
    ------
    InputError
        If the file cannot be read or is not a valid plan; one line: file, field, reason.
    """
    path = Path(path)
    try:
        return Plan.model_validate(read_object(path))
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None
