"""What a library user meets first: names, arrays, what is printed, and errors of one line."""

import doctest
import inspect
import subprocess
import sys
import typing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import balance, bitwidth, cache, deferral, layout, placement, relayout, tri_domain
from tests.refusals import refused
from tests.rooms.planner import ExecutionOptions, PlanOptions
from tests.rooms.problems import PROBLEMS
from tests.rooms.sim import PredictOptions, Trace
from tests.rooms.solvers import rules

GPU, CPU = [30, 40, 20, 25], [50, 20, 60, 45]
NDP, DIMM = [-1, 30, 25, 40], [-1, 0, 1, 1]


def small(**changes: Any) -> Any:
    """Return a small instance of tri_domain with other arguments in places."""
    arguments = {"gpu_ns": GPU, "cpu_ns": CPU, "ndp_ns": NDP, "dimm": DIMM, "dimms": 2}
    return tri_domain.Instance.from_arrays(**(arguments | changes))


def test_every_problem_is_public_and_cheap() -> None:
    """Instance, Solution, CONSTRAINTS and PROBLEM; importing the package imports no solver."""
    for name in PROBLEMS:
        problem = getattr(moeopt, name)
        assert {"Instance", "Solution", "CONSTRAINTS", "PROBLEM", "from_arrays"} <= {
            *dir(problem),
            *dir(problem.Instance),
        }
        assert problem.PROBLEM is PROBLEMS[name]
        with pytest.raises(AttributeError, match="no attribute 'Instances'"):
            problem.Instances  # noqa: B018
    assert set(PROBLEMS) <= set(dir(moeopt))
    heavy = "{'numpy', 'pydantic', 'numba', 'ortools', 'pulp', 'scipy'}"
    source = "".join(f"from moeopt import {name}\n" for name in PROBLEMS)
    source += f"import moeopt, sys; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_help_lists_problems_and_functions() -> None:
    """By name, in the first lines of ``help(moeopt)``."""
    words = set((moeopt.__doc__ or "").replace(",", " ").replace("`", " ").split())
    assert words >= set(moeopt.__all__) - {"Plan", "Result"}
    assert len(words & set(PROBLEMS)) >= 8


@pytest.mark.parametrize("name", ["moeopt", *PROBLEMS])
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    """What they print is what is printed."""
    module = sys.modules[name if name == "moeopt" else getattr(moeopt, name).Instance.__module__]
    done = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.attempted >= 2
    assert done.failed == 0


TAKES = {"plan": PlanOptions, "predict": PredictOptions, "simulate": ExecutionOptions}


def test_public_functions_have_real_signatures() -> None:
    """Every argument has a name and a type; only the options of a generator are its own."""
    for name in moeopt.__all__:
        value = getattr(moeopt, name)
        if not inspect.isfunction(value):
            continue
        kinds = {p.name: p.kind for p in inspect.signature(value).parameters.values()}
        wild = [n for n, k in kinds.items() if k in (k.VAR_KEYWORD, k.VAR_POSITIONAL)]
        if name in TAKES:
            assert {f.name for f in fields(TAKES[name])} < set(kinds)
        assert wild == (["options"] if name.startswith("generate") else []), name
        hints = [p.annotation for p in inspect.signature(value).parameters.values()]
        assert not [hint for hint in hints if hint in (inspect.Parameter.empty, Any)], name


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.int64, object])
def test_arrays_of_any_integer_type(kind: type) -> None:
    """The same instance as from lists, by its default name as well."""
    arrays = {"gpu_ns": GPU, "cpu_ns": CPU, "ndp_ns": NDP, "dimm": DIMM}
    if kind is np.uint16:
        del arrays["ndp_ns"], arrays["dimm"]
    made = small(**{name: np.array(values, kind) for name, values in arrays.items()})
    assert made == small()
    assert made.name == small().name
    assert made.name.startswith("tri_domain-")
    assert all(type(expert.gpu_ns) is int for expert in made.experts)
    assert small(gpu_ns=[31, 40, 20, 25]).name != made.name


def test_the_arrays_mean_what_the_docstring_says() -> None:
    """Defaults: nothing resident, one token, reads as long as Eq. 2 and 3 allow."""
    made = small(resident=np.array([False, True, False, False]))
    assert [expert.dimm for expert in made.experts] == [None, 0, 1, 1]
    assert [expert.ndp_ns for expert in made.experts] == [None, 30, 25, 40]
    assert [expert.gpu_dram_ns for expert in made.experts] == [30, 0, 20, 25]
    assert [expert.cpu_dram_ns for expert in made.experts] == [30, 20, 20, 25]
    assert {expert.tokens for expert in made.experts} == {1}
    assert [expert.expert for expert in made.experts] == [0, 1, 2, 3]
    given = small(cpu_dram_ns=[0, 1, 2, 3], gpu_dram_ns=[3, 2, 1, 0], tokens=[4, 3, 2, 1], name="x")
    assert [expert.cpu_dram_ns for expert in given.experts] == [0, 1, 2, 3]
    assert [expert.gpu_dram_ns for expert in given.experts] == [3, 2, 1, 0]
    assert [expert.tokens for expert in given.experts] == [4, 3, 2, 1]
    assert given.name == "x"


@pytest.mark.parametrize("name", PROBLEMS)
def test_instances_are_equal_if_their_fields_are(name: str, root: Path) -> None:
    """Also once arrays were derived from them, as cached properties are."""
    folder = root / "instances" / name
    file = min(folder.glob("*/*.json*"), key=lambda path: path.stat().st_size)
    solved, fresh = moeopt.load(file), moeopt.load(file)
    vars(solved)["derived"], vars(fresh)["derived"] = np.zeros(2), np.zeros(2)
    assert solved == fresh
    assert fresh == solved
    assert solved != fresh.model_copy(update={"quantum_ns": 77})
    assert solved != "text"


NAN = float("nan")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpu_ns": [30, -1, 20, 25]}, "gpu_ns[1]: must be at least 0, not -1"),
        ({"gpu_ns": [30, 2**50, 20, 25]}, f"gpu_ns[1]: must be at most {2**42}, not {2**50}"),
        ({"gpu_ns": [30, 10**30, 20, 25]}, f"gpu_ns[1]: must be at most {2**42}, not {10**30}"),
        ({"gpu_ns": [30, 40, 20.5, 25]}, "gpu_ns[2]: must be an integer, not 20.5"),
        ({"gpu_ns": [30, 40, True, 25]}, "gpu_ns[2]: must be an integer, not true"),
        ({"gpu_ns": np.array([3.0, 4, 5, 6])}, "gpu_ns[0]: must be an integer, not 3.0"),
        ({"gpu_ns": np.array([1, NAN, 5, 6])[1:]}, "gpu_ns[0]: must be an integer, not nan"),
        ({"gpu_ns": [30, None, 20, 25]}, "gpu_ns[1]: must be an integer, not null"),
        ({"gpu_ns": "3040"}, 'gpu_ns: must be an array of integers, not "3040"'),
        ({"gpu_ns": 7}, "gpu_ns: must have shape (any,) (experts,), not ()"),
        ({"gpu_ns": [[1], [2, 3]]}, "gpu_ns: must be an array of integers, all rows of one length"),
        ({"cpu_ns": CPU[1:]}, "cpu_ns: must have shape (4,) (experts,), not (3,)"),
        ({"dimm": [-1, 0, 2, 1]}, "dimm[2]: must be below dimms = 2, not 2"),
        ({"dimm": [-1, 0, -2, 1]}, "dimm[2]: must be at least -1, not -2"),
        ({"ndp_ns": [9, 30, 25, 40]}, "ndp_ns[0]: must be null because dimm is null"),
        ({"ndp_ns": [-1, -1, 25, 40]}, "ndp_ns[1]: must be an integer because dimm is not null"),
        ({"tokens": [1, 0, 1, 1]}, "tokens[1]: must be at least 1, not 0"),
        ({"expert": [0, 5, 2, 5]}, "expert[3]: 5 stands already in experts[1]"),
        ({"resident": [0, 1, 0, 0]}, "resident[0]: must be true or false, not 0"),
        ({"dimms": 0}, "dimms: must be at least 1, not 0"),
        ({"dimms": 2.5}, "dimms: must be an integer, not 2.5"),
        ({"name": "a\nb"}, "name: must have no control characters"),
        ({"name": ""}, "name: "),
    ],
)
def test_an_array_that_cannot_be_used(changes: dict[str, Any], says: str) -> None:
    """One line with the argument, the index, the value and what would be right."""
    assert refused(small, **changes).startswith(says)


EXAMPLES: dict[str, Any] = {
    "relayout": lambda **more: relayout.Instance.from_arrays(
        **{
            **dict.fromkeys(("prefetch_ns", "relayout_ns", "rebalance_ns"), 15),
            **dict.fromkeys(("pcie_window_ns", "dimm_link_window_ns"), 40),
            **{"dram_striped_ns": 10, "dram_localized_ns": 20, "dimms": 2, "hbm_free_slots": 1},
            **{cost: [5, 4] for cost in relayout.instance.COSTS},
            **{"tokens": [9, 1], "dimm": [0, -1]},
        }
        | more
    ),
    "layout": lambda **more: layout.Instance.from_arrays(
        **{
            **{"dram_striped_ns": 10, "dram_localized_ns": 20, "dimms": 2, "hbm_slots": 1},
            **dict.fromkeys(layout.instance.COSTS, np.full((2, 3), 5)),
            "tokens": np.array([[9, 1, 0], [1, 0, 0]]),
        }
        | more
    ),
    "deferral": lambda **more: deferral.Instance.from_arrays(
        **{
            **{"attention_ns": [30, 32], "shared_ns": 20, "sync_ns": np.int32(5)},
            **{"expert_cpu_ns": 12, "penalty": [0, 1, 3], "layers": 2, "top_k": 2},
        }
        | more
    ),
    "balance": lambda **more: balance.Instance.from_arrays(
        **{
            **{"tokens": [3, 1], "slice_gpu_ns": [4, 3], "slice_ndp_ns": [9, 5]},
            **{"slice_transfer_ns": 6, "activation_ns": 1, "ndp_units": 2, "slices_per_unit": 4},
        }
        | more
    ),
    "cache": lambda **more: cache.Instance.from_arrays(
        **{
            **{"accesses": [[[0, 1], [2, 0]], [[1, -1], [2, 1]]], "experts": 3, "slots": 2},
            **{"gpu_ns": 2, "cpu_ns": 9, "activation_ns": 1, "fetch_ns": 7},
        }
        | more
    ),
    "bitwidth": lambda **more: bitwidth.Instance.from_arrays(
        **{"loss": [[[9, 4, 0], [5, 2, 0]]], "bits": [2, 3, 4], "budget_bits": 6} | more
    ),
    "placement": lambda **more: placement.Instance.from_arrays(
        **{
            **{"tokens": [[[2, 0, 1], [0, 3, 0]]], "gpu_slots": 2},
            **{"gpu_expert_ns": [0, 2], "offload_expert_ns": [0, 9]},
        }
        | more
    ),
    "tri_domain": small,
}


@pytest.mark.parametrize("problem", EXAMPLES)
def test_instances_of_arrays_are_solved_and_come_back(problem: str, tmp_path: Path) -> None:
    """Without a file; and the file is the same instance."""
    instance = EXAMPLES[problem]()
    result = moeopt.solve(instance, "milp")
    assert result.status == "optimal"
    assert moeopt.check(instance, result.solution).objective == result.objective
    moeopt.save(instance, tmp_path / "x.json")
    assert moeopt.load(tmp_path / "x.json") == instance
    for text in (repr(instance), str(instance), repr(result.solution)):
        assert len(text) < 300
        assert "\n" not in text
        assert problem in text
        assert instance.name in text
    assert getattr(moeopt, problem).check.OBJECTIVE[0] in repr(instance)


@pytest.mark.parametrize(
    ("problem", "changes", "says"),
    [
        ("relayout", {"ndp_ns": [1, NAN]}, "ndp_ns[1]: must be an integer, not nan"),
        ("relayout", {"tokens": [0, 0]}, "experts: must have tokens for at least one expert"),
        (
            "layout",
            {"tokens": [[9, 1, 0]]},
            "gpu_hit_ns: must have shape (1, 3) (windows, experts)",
        ),
        ("layout", {"weight": [1, 0]}, "weight[1]: must be at least 1, not 0"),
        ("layout", {"ndp_ns": [[1, 2, 3], [4, -5, 6]]}, "ndp_ns[1, 1]: must be at least 0, not -5"),
        ("deferral", {"attention_ns": [1, 2, 3]}, "attention_ns: must have shape (2,)"),
        ("deferral", {"penalty": [0, 2, 1]}, "penalty[2]: must not fall: 1 comes after 2"),
        ("balance", {"tokens": [3, 0]}, "tokens[1]: must be at least 1, not 0"),
        ("balance", {"seq_len": True}, "seq_len: must be an integer, not true"),
        ("cache", {"accesses": [[[0, 3], [2, 0]]]}, "accesses[0, 0]: must be below experts = 3"),
        (
            "cache",
            {"accesses": [[[0, 1], [2]]]},
            "accesses: must be an array of integers, all rows",
        ),
        ("bitwidth", {"bits": [2, 4, 4]}, "bits[2]: must rise: 4 comes after 4"),
        ("bitwidth", {"budget_bits": None}, "budget_bits: must be given, or model_budget_bits"),
        ("bitwidth", {"loss": [[[9, 4], [5, 2]]]}, "loss: must have shape (any, any, 3)"),
        ("placement", {"gpu_expert_ns": [1, 2]}, "gpu_expert_ns[0]: no tokens cost 0, not 1"),
        ("placement", {"expert_slots": [[1, 1, 1]]}, "expert_slots: must have shape (2, 3)"),
    ],
)
def test_what_other_problems_refuse(problem: str, changes: dict[str, Any], says: str) -> None:
    """The same words everywhere."""
    assert refused(EXAMPLES[problem], **changes).startswith(says)


def test_numpy_integers_are_integers_everywhere() -> None:
    """In constructors, in parts and in data that are validated; flags and floats are not."""
    expert = {
        **{"expert": np.int64(0), "tokens": np.uint8(3), "resident": np.bool_(False)},
        **{"dimm": None, "ndp_ns": None},
        **dict.fromkeys(("gpu_ns", "cpu_ns", "gpu_dram_ns", "cpu_dram_ns"), np.int32(7)),
    }
    made = tri_domain.Instance(dimms=np.int16(2), experts=[expert])
    assert made == tri_domain.Instance.model_validate({"dimms": 2, "experts": [expert]})
    assert made.experts[0] == tri_domain.Expert(**expert)
    assert type(made.dimms) is type(made.experts[0].tokens) is int
    ways = cache.Solution(instance="x", ways=np.array([1, 2]))
    assert ways.ways == (1, 2)
    for wrong in (np.float64(3), np.bool_(True), True, 3.0, NAN, "3"):
        with pytest.raises(moeopt.InputError, match=r"^tokens: must be an integer"):
            tri_domain.Expert(**expert | {"tokens": wrong})
        with pytest.raises(moeopt.InputError, match=r"^experts\[0\].tokens: must be an integer"):
            tri_domain.Instance(dimms=2, experts=[expert | {"tokens": wrong}])
    with pytest.raises(moeopt.InputError, match=r"^dims: is not a known key"):
        tri_domain.Instance(dims=2, dimms=2, experts=[expert])


def test_files_state_a_name(tmp_path: Path) -> None:
    """In code it is optional, in files it is not."""
    data = {k: v for k, v in small().model_dump(mode="json").items() if k != "name"}
    moeopt.save(data, tmp_path / "x.json")
    with pytest.raises(moeopt.InputError, match=r"x\.json: name: is missing"):
        moeopt.load(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: moeopt.load(3), "path: must be a path, not int 3"),
        (lambda: moeopt.load_solution(None), "path: must be a path, not NoneType None"),
        (lambda: moeopt.save([1], "x"), "obj: must be an instance, a solution or a mapping"),
        (lambda: moeopt.save({}, 3), "path: must be a path, not int 3"),
    ],
)
def test_arguments_of_other_types_are_named(call: Any, says: str) -> None:
    """Not an error from inside."""
    assert refused(call).startswith(says)


def test_what_is_printed_says_what_it_is() -> None:
    """An instance with its size, a solution with what it decides."""
    instance = small(name="mine")
    assert str(instance) == (
        "<tri_domain instance 'mine': 4 experts, 1 striped, 0 resident, 2 DIMMs;"
        " minimises makespan_ns>"
    )
    solution = tri_domain.Solution(instance="mine", assignment=("gpu", "gpu", None, "cpu"))
    assert str(solution) == "<tri_domain solution of 'mine': assignment: 2 gpu, 1 none, 1 cpu>"
    ways = cache.Solution(instance="mine", ways=tuple(range(9)))
    assert str(ways) == "<cache solution of 'mine': ways: 0, 1, 2, 3, 4, 5, ... (9 in all)>"
    bits = bitwidth.Solution(instance="mine", bits=((2, 2, 4), (4, 2, 2)))
    assert "bits: 2 x (2 x 2, 1 x 4)" in str(bits)


def test_hints_resolve() -> None:
    """Annotations name what exists, as an editor needs it."""
    for name in PROBLEMS:
        assert typing.get_type_hints(getattr(moeopt, name).Instance.from_arrays)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_misspelt_array_is_named_with_what_was_meant(problem: str) -> None:
    """Before anything is missed for it, in one line; the signature says all names."""
    made = getattr(moeopt, problem).Instance.from_arrays
    for name in inspect.signature(made).parameters:
        said = refused(made, **{name[0] + name: 1})
        assert said.startswith(f"{name[0]}{name}: is not a known key; did you mean {name}")
    assert refused(made, nothing_like_it=1).startswith("nothing_like_it: is not a known key; known")


TRADE = {"machine": "trimoe", "model": "deepseek-v2-lite"}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: moeopt.load_trace(3), "path: must be a path, not int 3"),
        (lambda: moeopt.load_counts(None), "path: must be a path, not NoneType"),
        (lambda: moeopt.save_trace("x", "y"), "trace: must be a trace, not str 'x'"),
        (lambda: moeopt.load_plan(3), "path: must be a path, not int 3"),
        (lambda: moeopt.methods(3), "problem: 3 is unknown"),
        (lambda: moeopt.gap(3), "paths: must be a path, an instance or a list of them, not int"),
        (lambda: moeopt.gap("nowhere"), "nowhere: cannot be read: No such file"),
        (lambda: moeopt.solve("nowhere.json"), "nowhere.json: cannot be read: No such file"),
        (lambda: moeopt.methods("nowhere.json"), "nowhere.json: cannot be read: No such file"),
        (lambda: moeopt.gap([small(), 3]), "paths[1]: must be a path or an instance, not int 3"),
        (lambda: moeopt.plan(3, "x", "y"), "machine: must be a machine, the name of one or a path"),
        (lambda: moeopt.simulate(3, "x", "y", []), "plan: must be a plan, a split or a path"),
        (lambda: moeopt.generate("tri_domain", machine=3, model="x"), "machine: must be a machine"),
        (lambda: moeopt.generate("tri_domain", trace=3, **TRADE), "trace: must be a trace or its"),
        (
            lambda: moeopt.generate("tri_domain", workload=3, **TRADE),
            "workload: must be a workload",
        ),
        (
            lambda: moeopt.generate("tri_domain", workload="trimoe-skew", seed="1", **TRADE),
            "seed: must be an integer, not str '1'",
        ),
        (
            lambda: moeopt.generate("tri_domain", workload="trimoe-skew", bacth=1, **TRADE),
            "generate tri_domain: bacth: is not a known key; did you mean batch",
        ),
    ],
)
def test_every_public_function_names_a_wrong_argument(call: Any, says: str) -> None:
    """One line, whatever the function."""
    assert refused(call).startswith(says)


def test_the_public_face_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays, a solve with the problem's own method, a rule of one's own, by hand and by name."""
    gpu, cpu, ndp, dimm = (np.array(values) for values in (GPU, CPU, NDP, DIMM))
    instance = tri_domain.Instance.from_arrays(
        gpu_ns=gpu, cpu_ns=cpu, ndp_ns=ndp, dimm=dimm, dimms=16
    )
    result = moeopt.solve(instance)
    print(result)
    assert result.status == "optimal"
    assert result.method == tri_domain.PROBLEM.exact[0].name
    assert len(result.solution.assignment) == 4
    printed = capsys.readouterr().out
    assert instance.name in printed
    assert len(printed) < 200

    def my_rule(instance: Any) -> Any:
        return tri_domain.Solution(instance=instance.name, assignment=("cpu",) * 4)

    by_hand = moeopt.solve(instance, method=my_rule)
    assert by_hand.objective >= result.objective
    assert by_hand.solution.assignment == ("cpu",) * 4
    monkeypatch.setattr(rules, "_registered", {})
    decorated = moeopt.heuristic("tri_domain", "mine-in-a-test")(my_rule)
    assert decorated is my_rule
    by_name = moeopt.solve(instance, method="mine-in-a-test")
    assert by_name.objective == by_hand.objective


def test_packages_are_not_named_like_public_functions(root: Path) -> None:
    """``import moeopt.X.Y as y`` works for every module: no function hides a package."""
    modules = {path.stem for path in (root / "moeopt").iterdir()} - {"__pycache__", "__init__"}
    assert not modules & {*moeopt.__all__, *PROBLEMS}
    solving, study = moeopt.solve.__module__, moeopt.gap.__module__
    source = f"import {solving} as a, {study} as b; print(a.solve, b.gap)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_traces_and_simulations_are_short_as_well() -> None:
    """Their arrays are not printed."""
    trace = Trace("routed", np.zeros((7, 5, 2), np.int64))
    assert repr(trace) == "<trace 'routed': 7 tokens, 5 layers, top 2>"
    run = moeopt.simulate(None, "trimoe", "mixtral-8x7b", np.ones((2, 3, 8), np.int64))
    assert repr(run).startswith(
        "<simulation of plan on trimoe, mixtral-8x7b: 2 steps of 3 of 32 layers,"
    )


def test_what_is_returned_is_shown_in_one_line(root: Path) -> None:
    """Predictions, machines and explanations by what matters, not by their fields."""
    instance = moeopt.load(next((root / "instances/tri_domain/esft-fair").glob("*batch64.json")))
    made = moeopt.predict("rtx4090+ryzen-am5", "glm-4.5-air", bits="Q4_K_M")
    shown = [
        repr(made),
        repr(moeopt.get_machine("2xrtx3090+epyc-7002")),
        repr(moeopt.explain(instance, work_limit=2)),
        repr(moeopt.solve(instance, "trimoe")),
    ]
    assert all(len(text) < 160 and "\n" not in text for text in shown), shown
    assert f"{made.tokens_per_s:g} tokens/s" in shown[0]
    assert "gpu1 24 GiB" in shown[1]
