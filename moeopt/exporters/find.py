"""Finding the instance that a solution file is for, by the name that it states."""

import re
from pathlib import Path

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.problems.files import load

LIBRARY = Path("instances")
"""The folder of instances, as it lies in a checkout: one folder per problem in it."""


def find_instance(solution: SolutionEnvelope, file: Path) -> InstanceEnvelope:
    """Return the instance of a solution: from the solution's folder, or below ``./instances``.

    In the solution's folder any name of file will do. In the library a file is called like its
    instance, and only such files are looked at.

    Raises
    ------
    InputError
        If there is none, or several.
    """
    folder = file.absolute().parent
    found = [path for path in _json_files(folder) if _holds(path, solution)]
    if not found:
        stem = re.sub(r"[^\w.-]+", "-", solution.instance).lstrip(".")
        below = (LIBRARY / solution.problem).glob(f"*/{stem}.json*")
        found = [path for path in sorted(below) if _holds(path, solution)]
    if not found:
        places = f"neither {folder} nor {LIBRARY / solution.problem} holds it"
        raise InputError(f"{file}: instance {solution.instance!r} is not found: {places}; "
                         "give --instance")  # fmt: skip
    if len(found) > 1:
        both = " and ".join(map(str, found[:2]))
        raise InputError(f"{file}: instance {solution.instance!r} stands in {both}: "
                         "give --instance")  # fmt: skip
    return load(found[0])


def _json_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.glob("*.json*")
        if path.suffix in (".json", ".gz") and path.is_file()
    )


def _holds(path: Path, solution: SolutionEnvelope) -> bool:
    """Tell whether a file holds the instance; one that cannot be read does not."""
    try:
        data = read_object(path)
    except InputError:
        return False
    return data.get("name") == solution.instance and data.get("problem") == solution.problem
