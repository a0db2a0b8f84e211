"""Instances of which a solver once proved something false, on the OR-tools that is installed."""

import re
from pathlib import Path

import pytest

import moeopt

FOLDER = Path(__file__).parent / "false_proofs"

OPTIMA = {
    "split_min": 3_098_882,
    "split_labels_false_h3_1": 318_802_700,
    "split_cpsat_default_false": 11_920_864,
    "balance_dp_false": 9_895_604_649_978,
    "tri_cpsat_false": 41_620_779_498,
    "tri_infeasible": 34_359_738_371,
    "placement_cpsat_exc": 25_769_803_706,
    "cpsat_claim": 2_932_031_007_406,
    "milp_layout": 65_536,
}

WAYS: dict[str, dict[str, object]] = {
    "auto": {},
    "cp-sat": {"method": "cp-sat"},
    "cp-sat, cold": {"method": "cp-sat", "warm_start": False},
    "milp": {"method": "milp"},
    "milp, cold": {"method": "milp", "warm_start": False},
}


def test_every_file_has_its_truth() -> None:
    """Here, and in the page beside them."""
    files = {file.stem for file in FOLDER.glob("*.json")}
    assert files == {*OPTIMA, "bal20"}
    rows = re.findall(
        r"^\| `(\w+)\.json` .* \| ([\d,]+) \|$", (FOLDER / "README.md").read_text(), re.M
    )
    assert {name: int(optimum.replace(",", "")) for name, optimum in rows} == OPTIMA


@pytest.mark.parametrize("name", OPTIMA)
def test_the_truth_is_found(name: str) -> None:
    """By every way, to proven optimality; enumeration says what it is."""
    instance = moeopt.load(FOLDER / f"{name}.json")
    enumerated = moeopt.solve(instance, "brute-force")
    assert (enumerated.status, enumerated.objective) == ("optimal", OPTIMA[name])
    for way, options in WAYS.items():
        found = moeopt.solve(instance, time_limit_s=60, **options)  # type: ignore[arg-type]
        claimed = (found.status, found.objective, found.bound)
        assert claimed == ("optimal", OPTIMA[name], OPTIMA[name]), (way, found.raw_status)


def test_a_bound_that_a_work_limit_ends_is_none_too_high() -> None:
    """CP-SAT's was 5 % above the optimum."""
    instance = moeopt.load(FOLDER / "bal20.json")
    for way, options in WAYS.items():
        found = moeopt.solve(instance, work_limit=1.5, **options)  # type: ignore[arg-type]
        assert found.bound is None or found.bound <= 409_025_841_725_388, way  # type: ignore[operator]
        assert found.objective is None or found.objective >= 409_025_841_725_388, way  # type: ignore[operator]
