"""Public functions that are given nonsense: nothing but the project's own errors comes out."""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt

FILE = "instances/tri_domain/esft-window/window-law-layer4-batch256.json"
SOLUTION = "instances/tri_domain/solutions/esft-window/window-law-layer4-batch256.json"

NONSENSE = (object(), b"x", [None], {"a": 1}, np.zeros(3), "\0", "nonsense", float("nan"), -7)

DEAR = ("plan", "predict")
"""Functions that take long with nonsense that they may ignore."""

CALLBACKS = {"on_start", "on_progress", "watch", "function"}
"""Arguments that are tried as what cannot be called alone."""

MISSING = inspect.Parameter.empty


def usual() -> dict[str, dict[str, Any]]:
    """Return arguments of each public function with which it does little, or refuses a file."""
    instance, solution = moeopt.load(FILE), moeopt.load_solution(SOLUTION)
    machine = moeopt.get_machine("trimoe")
    pair = {"instance": instance, "solution": solution}
    made = {"machine": "trimoe", "model": "deepseek-v2-lite"}
    limit = {"time_limit_s": 1.0}
    small = {"batch": 2, "prompt": 0, "output": 1, "layers": 1, "systems": ["klotski"]}
    return {
        "calibrate": {"machine": machine, "points": []},
        "check": pair,
        "compare": {**made, "workload": "trimoe-skew", **small},
        "dedupe_trace": {"trace": None},
        "detect_machine": {"measure": False},
        "event_graph": pair,
        "explain": {**pair, **limit},
        "export": {"source": instance, "to": "mps", **limit},
        "find_repeats": {"trace": None},
        "gap": {"paths": [instance], "methods": ["greedy"], **limit},
        "generate": {"problem": "tri_domain", **made, "batch": 8},
        "generate_twins": {"problem": "tri_domain", **made},
        "get_machine": {"name_or_file": "trimoe"},
        "heuristic": {"problem": "tri_domain", "name": "mine"},
        "holdout": {"observed": instance, "later": [instance], "methods": ["greedy"]},
        "load": {"path": FILE},
        "load_counts": {"path": FILE},
        "load_plan": {"path": FILE},
        "load_solution": {"path": SOLUTION},
        "load_trace": {"path": FILE},
        "methods": {"problem": "tri_domain"},
        "plan": {"machine": "rtx4090-7960x", "model": "mixtral-8x7b", "trace": FILE, **limit},
        "plan_expert_parallel": {"counts": FILE, "ranks": 4},
        "predict": {"machine": "rtx4090+epyc-9004", "model": "glm-4.5-air", "bits": 4},
        "read_measurements": {"path": "nothing.csv"},
        "run_on": {"instance": instance, "decision": solution},
        "save": {"obj": {"a": 1}, "path": "nowhere/x.json"},
        "save_trace": {"trace": None, "path": "nowhere/x.npz"},
        "set_machine": {"machine": machine, "changes": {}},
        "simulate": {**made, "plan": None, "loads": FILE},
        "solve": {"instance": instance, "method": "greedy", **limit},
    }


FUNCTIONS = [name for name in moeopt.__all__ if inspect.isfunction(getattr(moeopt, name))]


def test_every_function_is_tried() -> None:
    """A new one gets its line above."""
    assert sorted(usual()) == sorted(FUNCTIONS)


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nonsense_is_refused(
    name: str, more: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each argument in turn, the others as they should be; some nonsense may pass for sense."""
    (tmp_path / "instances").symlink_to(Path("instances").absolute())
    monkeypatch.chdir(tmp_path)
    function, given = getattr(moeopt, name), usual()[name]
    for argument, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        for nonsense in NONSENSE if more or name not in DEAR else NONSENSE[::3]:
            if argument in CALLBACKS and callable(nonsense):
                continue
            _call(function, {**given, argument: nonsense})


def _call(function: Any, given: Mapping[str, Any]) -> None:
    """Call a function; its errors must be of one printable line."""
    try:
        function(**given)
    except moeopt.MoeoptError as error:
        assert re.fullmatch(r"[^\n]+", str(error)), error  # noqa: PT017
