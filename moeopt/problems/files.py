"""Reading instance and solution files of any problem."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from moeopt.core.envelope import Data, InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import read_object
from moeopt.core.logs import logger_of
from moeopt.core.wording import field_path, input_error, shown, suggested
from moeopt.problems.registry import PROBLEMS, get_problem

logger = logger_of(__name__)

LONG = 1024
"""From so many items on a list is given up while it is checked."""


InstanceLike = InstanceEnvelope | str | Path
"""An instance, or its file."""

SolutionLike = SolutionEnvelope | str | Path
"""A solution, or its file."""


def as_instance(value: object, field: str = "instance") -> InstanceEnvelope:
    """Return an instance, read from its file if need be.

    Raises
    ------
    InputError
        If it is neither, or the file cannot be used.
    """
    if isinstance(value, str | Path):
        return load(value)
    expect(field, value, InstanceEnvelope, what="an instance or its file")
    assert isinstance(value, InstanceEnvelope)  # noqa: S101 - it is by now
    return value


def as_solution(value: object, field: str = "solution") -> SolutionEnvelope:
    """Return a solution, read from its file if need be; errors as in `as_instance`."""
    if isinstance(value, str | Path):
        return load_solution(value)
    expect(field, value, SolutionEnvelope, what="a solution or its file")
    assert isinstance(value, SolutionEnvelope)  # noqa: S101 - it is by now
    return value


def load(path: str | Path) -> InstanceEnvelope:
    """Read an instance from a ``.json`` or ``.json.gz`` file.

    Parameters
    ----------
    path
        The file; its field ``problem`` names the problem.

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
        The file. The solution is not checked here; `moeopt.check` does that.

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
    if path.suffix in (".npz", ".npy"):
        raise InputError(
            "is a NumPy file, not JSON: moeopt trace info describes traces", where=path
        )
    data = read_object(path)
    if "problem" not in data:
        reason = f"is missing: must be one of {', '.join(PROBLEMS)}"
        raise InputError(reason, where=path, field="problem")
    try:
        problem = get_problem(data["problem"])
    except InputError as error:
        raise error.within(path) from None
    if is_solution and "instance" not in data and "schema_version" in data:
        raise InputError("is an instance, not a solution (moeopt solve makes one)", where=path)
    if not is_solution and "instance" in data and "schema_version" not in data:
        name = shown(data["instance"])
        raise InputError(f"is a solution of {name}, not an instance (see moeopt check)", where=path)
    for key in () if is_solution else ("schema_version", "name"):
        if key not in data:
            raise _missing(key, data, problem.Instance()).within(path)
    try:
        # Not the class's own, which looks for NumPy in what is wrong: a file has none.
        model = problem.Solution() if is_solution else problem.Instance()
        data = {key: _given_up(value) for key, value in data.items()}
        found = super(Data, model).model_validate(data)
    except ValidationError as error:
        raise input_error(error, path, model) from None
    logger.info("%s: read, %s %s", path, problem.name, "solution" if is_solution else "instance")
    return found


def _missing(key: str, data: Mapping[str, object], model: type[BaseModel]) -> InputError:
    """Return the error of a key that is missing, or misspelled."""
    if (extra := suggested(key, (name for name in data if name not in model.model_fields))) is None:
        return InputError("is missing", field=key)
    field = field_path([extra])
    return InputError(f"is not a known key; did you mean {key}?", field=field, suggestion=key)


def _given_up(value: object) -> object:
    """Return what gives the items of a long list of lists or objects one by one and forgets them.

    Else a large file would be in memory twice: as what was parsed, and as what is made of it.
    """
    if not isinstance(value, list) or len(value) < LONG or not isinstance(value[0], list | dict):
        return value
    value.reverse()
    return (_given_up(value.pop()) for _ in range(len(value)))
