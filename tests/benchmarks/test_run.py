"""The benchmark harness with fake contenders, and the textbook models on a tiny instance."""

import json
import threading
import time
from collections.abc import Callable

import pytest

from benchmarks.harness.case import case_names, load_case, parts
from benchmarks.harness.checked import FalseClaimError, checked_objective
from benchmarks.harness.contenders import Answer, moeopt_solve, prebuilt, textbook
from benchmarks.harness.contradictions import contradictions
from benchmarks.harness.measure import WARM_UP_S, measure, measure_against
from benchmarks.harness.measurement import Measurement, Run
from benchmarks.harness.summary import Figure, summarise
from benchmarks.run import CASES, main
from benchmarks.textbook import tri_domain
from tests.rooms.core import InstanceEnvelope
from tests.rooms.tri_domain import Expert, Instance, Solution, trimoe

LIMIT_S = 10.0
A, B = (InstanceEnvelope(problem="fake", name=name) for name in "ab")

CASE_FILE = """
from benchmarks.harness.measurement import Measurement
from benchmarks.rooms.core import InstanceEnvelope

DESCRIPTION = "two fakes"
BASELINE = "left"

def instances():
    return [InstanceEnvelope(problem="fake", name="a")]

def contenders():
    return {
        "left": lambda instance, limit: Measurement(0.5, 10, 10, proven=True),
        "right": lambda instance, limit: Measurement(1.0, RIGHT, RIGHT, proven=True),
    }
"""


class Fake:
    """Reports the given seconds, turn by turn; `LIMIT_S` means that the limit ended the run."""

    def __init__(self, calls: list[str], name: str, **seconds: list[float]) -> None:
        self.calls, self.name = calls, name
        self.seconds = {instance: iter(values) for instance, values in seconds.items()}

    def __call__(self, instance: InstanceEnvelope, time_limit_s: float) -> Measurement:
        if time_limit_s == WARM_UP_S:
            return Measurement(0.0, None, None, proven=False)
        self.calls.append(self.name + instance.name)
        seconds = next(self.seconds[instance.name])
        proven = seconds < LIMIT_S
        return Measurement(seconds, 7, 7 if proven else None, proven, hit_limit=not proven)


def raises(instance: InstanceEnvelope, time_limit_s: float) -> Measurement:
    raise RuntimeError("no\nlicence")


def run_of(contender: str, objective: int | None, *, proven: bool) -> Run:
    return Run(0, "a", contender, Measurement(1.0, objective, None, proven))


def test_contenders_are_interleaved_and_compared_per_instance():
    calls: list[str] = []
    contenders = {
        "x": Fake(calls, "x", a=[1, 5, 2], b=[4, 4, 1]),
        "y": Fake(calls, "y", a=[6, 1, 9], b=[4, 8, 9]),
    }
    runs = list(measure(contenders, [A, B], repeats=3, time_limit_s=LIMIT_S))
    assert calls == ["xa", "ya", "xb", "yb"] * 3
    x, y = summarise(runs, contenders, baseline="x")
    assert (x.proven, x.instances, x.at_limit, x.failed) == (2, 2, 0, 0)
    assert (x.median, x.p95, x.p99, x.maximum) == (Figure(3), Figure(4), Figure(4), Figure(4))
    assert (y.median, y.ratio) == (Figure(7), Figure((6 / 2 + 8 / 4) / 2))
    assert x.cpu_median is None


def test_what_the_process_computed_is_told_apart_from_waiting():
    def waits(_: InstanceEnvelope) -> Callable[[float], Answer]:
        def solve(_: float) -> Answer:
            time.sleep(0.05)
            return Answer(None, None, None, proven=True)

        return solve

    contenders = {"waits": prebuilt(waits)}
    runs = list(measure(contenders, [A], repeats=1, time_limit_s=LIMIT_S))
    [row] = summarise(runs, contenders, baseline="waits")
    assert row.median is not None
    assert row.cpu_p99 is not None
    assert 0 <= row.cpu_p99.value < 0.05 <= row.median.value


def test_the_limit_ends_the_repeats_on_that_instance_only():
    calls: list[str] = []
    contenders = {
        "x": Fake(calls, "x", a=[1, 1], b=[1, 1]),
        "y": Fake(calls, "y", a=[LIMIT_S], b=[2, 2]),
    }
    runs = list(measure(contenders, [A, B], repeats=2, time_limit_s=LIMIT_S))
    assert calls == ["xa", "ya", "xb", "yb", "xa", "xb", "yb"]
    y = summarise(runs, contenders, baseline="x")[1]
    assert (y.proven, y.at_limit) == (1, 1)
    assert y.maximum == Figure(LIMIT_S, at_least=True)
    against_y = summarise(runs, contenders, baseline="y")[0]
    assert against_y.ratio == Figure(1 / 2)


def test_with_a_factor_the_others_get_that_many_times_what_the_baseline_took():
    limits: list[tuple[str, float]] = []

    def slow(instance: InstanceEnvelope, time_limit_s: float) -> Measurement:
        limits.append((instance.name, time_limit_s))
        return Measurement(time_limit_s, None, None, proven=False, hit_limit=True)

    calls: list[str] = []
    contenders = {"slow": slow, "x": Fake(calls, "x", a=[0.1, 0.3, 0.2], b=[1, 2, 3])}
    runs = list(measure_against("x", 10, contenders, [A, B], repeats=3, time_limit_s=LIMIT_S))
    assert calls == ["xa", "xb"] * 3
    assert limits == [("a", WARM_UP_S), ("a", pytest.approx(2)), ("b", LIMIT_S)]
    assert [run.contender for run in runs] == ["x"] * 6 + ["slow"] * 2
    ratio = summarise(runs, contenders, baseline="x")[0].ratio
    assert ratio == Figure(pytest.approx((10 + LIMIT_S / 2) / 2), at_least=True)


def test_a_baseline_that_fails_leaves_the_others_the_whole_limit():
    contenders = {"x": raises, "y": Fake([], "y", a=[1])}
    runs = list(measure_against("x", 10, contenders, [A], repeats=1, time_limit_s=LIMIT_S))
    assert [run.failure for run in runs] == ["RuntimeError: no licence", None]


def test_a_failure_is_recorded_and_the_others_go_on():
    contenders = {"x": raises, "y": Fake([], "y", a=[1, 1])}
    runs = list(measure(contenders, [A], repeats=2, time_limit_s=LIMIT_S))
    assert [run.failure for run in runs] == ["RuntimeError: no licence", None, None]
    x, y = summarise(runs, contenders, baseline="x")
    assert (x.failed, x.median, x.ratio) == (1, None, None)
    assert (y.failed, y.median, y.ratio) == (0, Figure(1), None)


def test_a_solver_left_behind_is_waited_for():
    left_behind = threading.Timer(0.05, lambda: None)

    def leaves_a_thread(instance: InstanceEnvelope, time_limit_s: float) -> Measurement:
        if time_limit_s == LIMIT_S:
            left_behind.start()
        return Measurement(1.0, None, None, proven=False)

    list(measure({"x": leaves_a_thread}, [A], repeats=1, time_limit_s=LIMIT_S))
    assert not left_behind.is_alive()


@pytest.mark.parametrize(
    ("objective", "proven", "contradicts"),
    [(7, True, False), (8, False, False), (8, True, True), (6, False, True), (None, True, True)],
)
def test_a_proof_is_contradicted_by_another_or_by_a_better_solution(objective, proven, contradicts):
    runs = [run_of("x", 7, proven=True), run_of("y", objective, proven=proven)]
    assert bool(contradictions(runs)) == contradicts


@pytest.mark.parametrize(("right", "code"), [(10, 0), (11, 1)])
def test_the_command_writes_json_and_markdown_and_fails_on_contradictions(
    tmp_path, capsys, right, code
):
    (tmp_path / "fake.py").write_text(CASE_FILE.replace("RIGHT", str(right)))
    out = tmp_path / "new" / "out"
    argv = ["fake", "--repeats", "2", "--time-limit", "3", "--out", str(out)]
    assert main(argv, folder=tmp_path) == code
    printed, progress = capsys.readouterr()
    assert "| right | 1/1 | 1 | 1 | 1 | 1 | – | – | 2 | 0 | 0 |" in printed
    assert "4/4" in progress
    assert ("claims that 11 is optimal, but left found 10" in progress) == (code == 1)
    assert (out / "fake.md").read_text() == printed.rstrip("\n") + "\n"
    document = json.loads((out / "fake.json").read_text())
    assert len(document["measurements"]) == 4
    assert document["measurements"][1]["contender"] == "right"
    assert document["measurements"][1]["seconds"] == 1.0
    assert document["command"].startswith("python benchmarks/run.py fake --repeats 2")
    assert (document["repeats"], document["time_limit_s"], document["workers"]) == (2, 3, 1)
    assert {"cpu", "cores", "memory_gib", "os", "python"} <= set(document["machine"])
    assert {"moeopt", "ortools", "scipy", "pulp", "numpy"} == set(document["versions"])


@pytest.mark.parametrize(
    "argv", [["nonesuch"], ["--repeats", "0"], ["--time-limit", "0"], ["--factor", "-1"]]
)
def test_unusable_options_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_cases_of_the_project_are_listed(capsys):
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    for name in case_names(CASES):
        assert f"{name}: " in listed


LONG_CASES = {"placement_exact", "cache_curves", "online", "tri_domain_exact"}
"""A second or more to make their instances."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LONG_CASES else name
        for name in case_names(CASES)
    ],
)
def test_a_case_of_the_project_is_complete(name):
    contenders, instances = parts(name, load_case(CASES, name))
    assert contenders
    assert instances


def tiny_instance() -> Instance:
    rows = [(None, 9, 5, 4), (0, 7, 8, 3), (0, 7, 8, 6), (1, 7, 8, 5), (None, 6, 6, 3)]
    experts = [
        Expert(
            expert=number,
            tokens=1,
            resident=False,
            dimm=dimm,
            gpu_ns=gpu,
            cpu_ns=cpu,
            ndp_ns=None if dimm is None else read + 1,
            gpu_dram_ns=read,
            cpu_dram_ns=read,
        )
        for number, (dimm, gpu, cpu, read) in enumerate(rows)
    ]
    return Instance(name="tiny", dimms=2, experts=tuple(experts))


@pytest.mark.filterwarnings("ignore:PULP_CBC_CMD is deprecated:DeprecationWarning")
@pytest.mark.parametrize("solve", [tri_domain.cpsat, tri_domain.highs, tri_domain.cbc])
def test_textbook_models_find_the_optimum(solve):
    instance = tiny_instance()
    optimum = moeopt_solve(method="brute-force")(instance, LIMIT_S)
    found = textbook(solve)(instance, LIMIT_S)
    assert optimum.proven
    assert found.proven
    assert found.objective == optimum.objective
    assert found.bound == pytest.approx(optimum.objective)


def test_trimoe_in_plain_python_gives_the_same_schedule():
    for instance in [tiny_instance(), load_case(CASES, "tri_domain_heuristics").instances()[0]]:
        assert tri_domain.trimoe(instance) == trimoe(instance)


@pytest.mark.parametrize(
    ("assignment", "claim", "message"),
    [(("cpu",) * 5, 34, "the checker computes 35"), (("ndp",) * 5, 35, "TD-C2")],
)
def test_false_claims_are_refused(assignment, claim, message):
    solution = Solution(instance="tiny", assignment=assignment)
    with pytest.raises(FalseClaimError, match=message):
        checked_objective(tiny_instance(), solution, claim)
