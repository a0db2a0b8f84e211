"""Reading instance and solution files of any problem."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from moeopt.core.envelope import Data, InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import read_object
from moeopt.core.wording import describe
from moeopt.problems.registry import get_problem


def load(path: str | Path) -> InstanceEnvelope:
    """Read an instance from a ``.json`` or ``.json.gz`` file.

    Parameters
    ----------
    path
        The file. Which problem it belongs to stands in its field ``problem``.

    Returns
    -------
    Instance
        Of that problem, e.g. `moeopt.problems.tri_domain.instance.Instance`.

    Raises
    ------
    InputError
        If the file cannot be read or is not a valid instance; one line: file, field, reason.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/tri_domain/esft-window"
    >>> instance = moeopt.load(f"{folder}/window-law-layer4-batch256.json")
    >>> instance.problem, instance.dimms, len(instance.experts)
    ('tri_domain', 16, 64)
    """
    instance: InstanceEnvelope = _validated(path, is_solution=False)
    return instance


def load_solution(path: str | Path) -> SolutionEnvelope:
    """Read a solution from a ``.json`` or ``.json.gz`` file.

    Parameters
    ----------
    path
        The file. Whether the solution is any good is for `moeopt.check` to say.

    Returns
    -------
    Solution
        Of the problem that the file names.

    Raises
    ------
    InputError
        If the file cannot be read or is not a solution; one line: file, field, reason.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/tri_domain/solutions/esft-window"
    >>> solution = moeopt.load_solution(f"{folder}/window-law-layer4-batch256.json")
    >>> solution.problem, len(solution.assignment)
    ('tri_domain', 64)
    """
    solution: SolutionEnvelope = _validated(path, is_solution=True)
    return solution


def _validated(path: str | Path, *, is_solution: bool) -> Any:
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    data = read_object(path)
    for key in ("problem",) if is_solution else ("problem", "schema_version", "name"):
        if key not in data:
            raise InputError(f"{path}: {key}: is missing")
    try:
        problem = get_problem(data["problem"])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    try:
        # Not the class's own, which looks for NumPy in what is wrong: a file has none.
        model = problem.solution if is_solution else problem.instance
        return super(Data, model).model_validate(data)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None
