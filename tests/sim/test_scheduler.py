"""The online scheduler: priced as generated instances are, solved as `moeopt.solve` does."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, get_machine, tri_domain
from tests.rooms.problems import table_of
from tests.rooms.sim import Source, get_model
from tests.rooms.systems import cost_table
from tests.rooms.tri_domain import (
    DOMAINS,
    Instance,
    Options,
    Solution,
    objective,
    of_load,
    online,
    violations,
)

MODELS = ("deepseek-v2-lite", "deepseek-v2", "qwen3-235b-a22b")


def window(seed: int) -> tuple[Source, Instance, Any]:
    """Return where a random window comes from, its instance and its scheduler's arguments."""
    rng = np.random.default_rng(seed)
    model = get_model(MODELS[seed % len(MODELS)])
    source = Source(get_machine("trimoe"), model, quantum_ns=int(rng.choice([1, 5000])))
    share = rng.dirichlet(np.full(model.routed_experts, rng.choice([0.2, 1.0])))
    now, before = rng.multinomial(model.top_k * int(rng.choice([8, 64, 512])), share, size=2)
    options = Options(residents=int(rng.choice([0, 6])), dimms=int(rng.choice([4, 16])))
    loads = {"offline trace": before.tolist(), "last step": before.tolist()}
    instance = of_load(source, options, now, loads, f"window-{seed}")
    layout = rng.integers(-1, options.dimms, len(now))  # of those without tokens: any
    held = rng.random(len(now)) < 0.5
    for expert in instance.experts:
        layout[expert.expert] = -1 if expert.dimm is None else expert.dimm
        held[expert.expert] = expert.resident
    given = {"layout": layout, "resident": held, "dimms": options.dimms}
    return source, instance, given | {"quantum_ns": source.quantum_ns, "tokens": now}


def scheduler_of(source: Source, given: Any, method: str = "threshold") -> tri_domain.Scheduler:
    """Return the scheduler of a window."""
    arguments = {name: value for name, value in given.items() if name != "tokens"}
    return tri_domain.Scheduler(source.machine, source.model, method=method, **arguments)


def compare(seed: int, methods: tuple[str, ...]) -> None:
    """Hold a window's schedules to what `moeopt.solve` gives, and to the checker."""
    source, instance, given = window(seed)
    tokens = given["tokens"]
    for method in methods:
        result = moeopt.solve(instance, method)
        found, makespan, bound = scheduler_of(source, given, method).schedule(tokens)
        assert (found == -1).tolist() == (tokens == 0).tolist()
        assignment = tuple(DOMAINS[domain] for domain in found[tokens > 0])
        solution = Solution(instance=instance.name, assignment=assignment)
        assert violations(instance, solution, makespan) == []
        assert objective(instance, solution) == makespan == result.objective
        assert assignment == result.solution.assignment
        assert bound <= makespan
        if method == "threshold":
            assert bound == result.bound


@pytest.mark.parametrize("method", ["threshold", "trimoe", "greedy"])
@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_solve_gives(method: str, more: bool) -> None:
    """The same assignment, makespan and bound, and the checker confirms the makespan."""
    for seed in range(120 if more else 20):
        compare(seed, (method,))


@pytest.mark.slow
def test_what_solve_gives_for_many() -> None:
    """As above, over more windows."""
    for seed in range(120, 1200):
        compare(seed, ("threshold", "trimoe", "greedy"))


@pytest.mark.parametrize("seed", range(12))
def test_priced_as_generated(seed: int) -> None:
    """The table that is searched holds the very integers of the instance."""
    source, instance, given = window(seed)
    c = instance.columns
    due = table_of(c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)
    searched = []

    def note(experts: Any, dimms: int, *_: Any) -> tuple[int, int]:
        searched.append((experts.copy(), dimms))
        return 0, 0

    scheduler = scheduler_of(source, given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(online, "scheduled", note)
        scheduler.schedule(given["tokens"])
    assert searched[0][1] == instance.dimms
    assert np.array_equal(searched[0][0], due)


def test_generated_windows() -> None:
    """What `moeopt.generate` makes of a workload is priced and solved alike."""
    for step, batch in product((1, 2), (32, 256)):
        instance = moeopt.generate(
            "tri_domain",
            machine="trimoe",
            model="deepseek-v2",
            workload="trimoe-skew",
            batch=batch,
            step=1,
            seed=step,
            residents=4,
        )
        tokens, layout = np.zeros(160, np.int64), np.full(160, -1)
        held = np.zeros(160, bool)
        for e in instance.experts:
            tokens[e.expert], held[e.expert] = e.tokens, e.resident
            layout[e.expert] = -1 if e.dimm is None else e.dimm
        scheduler = tri_domain.Scheduler("trimoe", "deepseek-v2", layout.tolist(), resident=held)
        _, makespan, bound = scheduler.schedule(tokens)
        assert makespan == bound == moeopt.solve(instance).objective


def test_several_threads() -> None:
    """Threads that share a scheduler get what one thread gets, each in arrays of its own."""
    source, _, given = window(4)
    scheduler = scheduler_of(source, given)
    rng = np.random.default_rng(4)
    size = len(given["tokens"])
    loads = [rng.multinomial(512, rng.dirichlet(np.full(size, 0.3))) for _ in range(200)]
    alone = [scheduler.schedule(tokens) for tokens in loads]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(scheduler.schedule, loads * 2))
    for due, found in zip(alone * 2, together, strict=True):
        assert np.array_equal(due[0], found[0])
        assert due[1:] == found[1:]


def test_another_layout_and_residents_for_one_call() -> None:
    """They count for the call alone."""
    source, _, given = window(7)
    tokens = given["tokens"]
    plain = {"layout": np.full(len(tokens), -1), "resident": np.zeros(len(tokens), bool)}
    scheduler = scheduler_of(source, given | plain)
    before = scheduler.schedule(tokens)[1]
    changed = scheduler.schedule(tokens, layout=given["layout"], resident=given["resident"])[1]
    assert changed == scheduler_of(source, given).schedule(tokens)[1] != before
    assert scheduler.schedule(tokens)[1] == before


def test_from_tables() -> None:
    """Tables of costs in place of a machine and a model."""
    source, _, given = window(2)
    most = int(given["tokens"].max())
    costs = cost_table(source.costs, most, quantum_ns=source.quantum_ns)
    path_ns = {path: table[0] for path, table in costs.path_ns.items()}
    read_ns = {layout: int(read[0]) for layout, read in costs.read_ns.items()}
    layout, dimms, resident = given["layout"], given["dimms"], given["resident"]
    make = tri_domain.Scheduler.from_tables
    scheduler = make(path_ns, read_ns, layout, dimms, resident=resident)
    due = scheduler_of(source, given).schedule(given["tokens"])
    assert scheduler.schedule(given["tokens"])[1:] == due[1:]
    with pytest.raises(InputError, match=r"^path_ns: ndp is missing$"):
        make({k: v for k, v in path_ns.items() if k != "ndp"}, read_ns, layout, dimms)
    with pytest.raises(InputError, match=r"^path_ns.ndp\[1\]: must be at least 0, not -5$"):
        make(path_ns | {"ndp": [0, -5] + [9] * (most - 1)}, read_ns, layout, dimms)


KERNELS = """
import gc, sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from moeopt import cache, deferral, tri_domain

def known():
    return sum(len(d.signatures) for d in gc.get_objects() if isinstance(d, Dispatcher))

rng = np.random.default_rng(1)
for method in ("threshold", "trimoe", "greedy"):
    layout = rng.integers(-1, 16, 64)
    scheduler = tri_domain.Scheduler("trimoe", "deepseek-v2-lite", layout, method,
                                     resident=rng.random(64) < 0.2, quantum_ns=1)
    before = known()
    for share in (0.1, 0.3, 1.0, 9.0) * 15:
        tokens = rng.multinomial(int(rng.choice([8, 512, 4096])), rng.dirichlet(np.full(64, share)))
        scheduler.schedule(tokens)
    frozen = np.frombuffer(tokens.tobytes(), np.int64)
    strided = np.repeat(tokens, 2)[::2]
    for given in (frozen, strided, tokens.astype(np.int32), tokens.tolist()):
        scheduler.schedule(given, layout=layout.tolist(), resident=rng.random(64) < 0.5, out=tokens)
    print(before, known())
for method in ("dp", "saturate"):
    scheduler = deferral.Scheduler(26, 6, range(5), method, min_immediate=2, max_total_penalty=60)
    before = known()
    for times in rng.integers(1, 60_000, (9, 4, 26)):
        scheduler.schedule(*times)
    print(before, known())
caches = cache.Lru([3, 0, 64], 64)
before = known()
for given in ([3, 5], np.arange(5), np.arange(9)[::2], np.frombuffer(bytes(8), np.int64)):
    caches.access(0, given)
    caches.access(2, given, out=np.empty(2 * len(given), bool)[::2])
print(before, known())
"""


@pytest.mark.slow
def test_no_step_compiles() -> None:
    """In a new process: constructors have made, or loaded, every kernel that steps call."""
    done = subprocess.run([sys.executable, "-c", KERNELS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        before, after = map(int, line.split())
        assert before == after > 0, done.stdout
    assert len(done.stdout.splitlines()) == 6


def test_the_loads_may_make_room_for_the_answer() -> None:
    """`out` may be the array of tokens, or overlap with it."""
    source, _, given = window(1)
    scheduler, tokens = scheduler_of(source, given), given["tokens"].astype(np.int64)
    due = scheduler.schedule(tokens)
    both = np.append(tokens, 0)
    found = scheduler.schedule(both[:-1], out=both[1:])
    assert found[0].tolist() == due[0].tolist()
    assert found[1:] == due[1:]
    found = scheduler.schedule(tokens, out=tokens)
    assert found[0] is tokens
    assert (tokens.tolist(), found[1:]) == (due[0].tolist(), due[1:])


def test_nothing_to_do_and_room_for_the_answer() -> None:
    """A step without tokens takes no time; `out` is what comes back."""
    source, _, given = window(1)
    scheduler = scheduler_of(source, given)
    nothing, makespan, bound = scheduler.schedule(np.zeros(len(given["tokens"]), np.int32))
    assert (set(nothing.tolist()), makespan, bound) == ({-1}, 0, 0)
    out = np.empty(len(nothing), np.int64)
    assert scheduler.schedule(given["tokens"], out=out)[0] is out
    assert out.tolist() == scheduler.schedule(given["tokens"].tolist())[0].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": [1] * 5}, r"tokens: must have shape \(64,\) \(experts,\), not \(5,\)"),
        ({"tokens": [0.5] * 64}, r"tokens\[0\]: must be an integer, not 0.5"),
        ({"tokens": [0] * 63 + [-1]}, r"tokens\[63\]: must be at least 0, not -1"),
        ({"tokens": [9] + [101] * 63}, r"tokens\[1\]: must be at most 100, not 101"),
        ({"layout": [16] * 64}, r"layout\[0\]: must be at most 15, not 16"),
        ({"resident": [1] * 64}, r"resident\[0\]: must be true or false, not 1"),
        ({"tokens": [[1], [2, 3]]}, r"tokens: must be an array of integers, all rows of one .*"),
        (
            {"out": np.zeros(64)},
            r"out: must be a writable, contiguous int64 array of shape \(64,\)",
        ),
        ({"out": [0] * 64}, r"out: must be a writable, contiguous int64 array of shape \(64,\)"),
        ({"out": np.zeros(128, np.int64)[::2]}, r"out: must be a writable, contiguous int64 .*"),
        ({"out": np.frombuffer(bytes(512), np.int64)}, r"out: must be a writable, contiguous .*"),
    ],
)
def test_one_line_says_what_is_wrong(change: Any, message: str) -> None:
    """Argument, index, value."""
    scheduler = tri_domain.Scheduler("trimoe", "deepseek-v2-lite", [None] * 64, most_tokens=100)
    with pytest.raises(InputError, match=f"^{message}$"):
        scheduler.schedule(**({"tokens": [1] * 64} | change))


def test_a_wrong_construction() -> None:
    """Unknown methods, layouts of other models, machines without NDP units."""
    for given in (0, -5, 2.5, True, None, 2**62):
        with pytest.raises(InputError, match=r"^quantum_ns: must be "):
            tri_domain.Scheduler("trimoe", "deepseek-v2-lite", [None] * 64, quantum_ns=given)
    for wrong in ({"most_tokens": 9.5}, {"most_tokens": 2**30}, {"dimms": 2.5}, {"dimms": 0}):
        with pytest.raises(InputError, match=rf"^{next(iter(wrong))}: must be "):
            tri_domain.Scheduler("trimoe", "deepseek-v2-lite", [None] * 64, **wrong)
    with pytest.raises(InputError, match=r"^method: 'dp' is unknown; known: threshold, trimoe"):
        tri_domain.Scheduler("trimoe", "deepseek-v2-lite", [None] * 64, "dp")
    with pytest.raises(InputError, match=r"^layout: must have shape \(64,\)"):
        tri_domain.Scheduler("trimoe", "deepseek-v2-lite", [None] * 60)
    with pytest.raises(InputError, match=r"^machine ktransformers-a100: .* is missing"):
        tri_domain.Scheduler("ktransformers-a100", "deepseek-v2-lite", [None] * 64)
    with pytest.raises(InputError, match=r"^most_tokens: must be at least 1, not 0$"):
        tri_domain.Scheduler("trimoe", "deepseek-v2-lite", [None] * 64, most_tokens=0)


def test_what_is_open_is_searched_with_more_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `threshold.solve` does: fourfold each time, up to its most."""
    source, _, given = window(5)
    efforts = []

    class Open(online.Bracket):
        is_open = True

        def narrow(self, cutoff: int, limit: int) -> None:
            efforts.append(limit)
            super().narrow(cutoff, limit)

    scheduler = scheduler_of(source, given)
    monkeypatch.setattr(online, "Bracket", Open)
    scheduler.schedule(given["tokens"])
    assert efforts == [2**19, 2**21, 2**23]
