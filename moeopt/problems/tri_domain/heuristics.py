"""The paper's scheduler and the named baselines, each restricted to the domains its system has.

All of them take the fixed layout as it is, and every cost is the instance's complete path cost: a
baseline that overlaps transfers with computation inside one expert has that in ``gpu_ns`` already
(Eq. 2 is a maximum), and overlap between experts does not exist in this problem (Eq. 5 is a sum).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .instance import STRIPED, Columns, Instance
from .solution import DOMAINS, Solution

GPU, CPU, NDP = range(3)

Choice = NDArray[np.int64]
"""One of GPU, CPU, NDP per expert."""

FIDDLER_GRID = 2**15
"""Resolution of the two-machine split in `fiddler` where the costs have no coarser grid."""


def greedy(instance: Instance) -> Solution:
    """Each expert takes its cheapest path (TriMoE 4.2, initial assignment).

    The paper does not say how ties are broken, and a localized non-resident expert costs the GPU
    and the CPU the same read, so ties are common. Settled: the first of gpu, cpu, ndp.
    """
    return _solution(instance, _cheapest_path(instance.columns))


def trimoe(instance: Instance) -> Solution:
    """TriMoE's scheduler: `greedy`, then the bottleneck-aware refinement (TriMoE 4.2).

    As the paper words it: the bottleneck device's most costly expert is the one candidate; of the
    other devices it moves to the one that gives the smallest new makespan, at a tie to the one
    whose own total grows least; it ends when the makespan no longer falls.

    Settled where the paper is silent: the bottleneck is one device or one DIMM (ties: GPU, CPU,
    lowest DIMM); on a DIMM the candidate is its costliest NDP expert, and a bottleneck DIMM without
    NDP work ends the refinement; equally costly experts go by the lowest id; there is no iteration
    limit, since the strict decrease makes the loop finite.
    """
    return _solution(instance, refine(instance, _cheapest_path(instance.columns)))


def refine(instance: Instance, start: Choice) -> Choice:
    """Return a schedule improved by TriMoE's bottleneck-aware refinement; see `trimoe`.

    Parameters
    ----------
    start
        The schedule to start from, int64 of shape (experts,): `GPU`, `CPU`, `NDP`.
    """
    from moeopt.problems import device_loads  # compiled loops are imported when they are run

    c = instance.columns
    order = np.argsort(c.expert)  # of equally costly experts the first is moved
    columns = (c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)
    experts = device_loads.table_of(*(column[order] for column in columns))
    choice = start[order]
    device_loads.refine(experts, choice, instance.dimms)
    found = np.empty_like(choice)
    found[order] = choice
    return found


def klotski(instance: Instance) -> Solution:
    """Everything runs on the GPU (Klotski, as TriMoE 5.1.2 describes it: GPU only).

    Its idea, hiding one expert's transfer behind another's computation, is invisible here: Eq. 5
    adds up complete path costs.
    """
    return _solution(instance, np.full(len(instance.experts), GPU))


def ktransformers(instance: Instance) -> Solution:
    """GPU and CPU: residents on the GPU, the rest on the CPU, hot ones loaded on demand.

    TriMoE 5.1.2 calls it Enhanced KTransformers: "prefetching and on-demand loading of hot experts
    on top of its processing of all non-shared experts using AMX-CPU". Settled: non-residents move
    from the CPU to the GPU in order of falling token count (ties: lowest id) as long as the later
    of the two totals gets strictly earlier. DIMM contention is not looked at, as in the original.
    """
    c = instance.columns
    choice = np.where(c.resident, GPU, CPU)
    gpu, cpu = int(c.gpu_ns[c.resident].sum()), int(c.cpu_ns[~c.resident].sum())
    for row in _by_falling_tokens(c, ~c.resident):
        moved = gpu + int(c.gpu_ns[row]), cpu - int(c.cpu_ns[row])
        if max(moved) >= max(gpu, cpu):
            break
        choice[row] = GPU
        gpu, cpu = moved
    return _solution(instance, choice)


def monde(instance: Instance) -> Solution:
    """GPU and NDP: the hottest experts move their weights to the GPU, the others stay on NDP.

    MoNDE balances the two by the cost of moving weights against moving activations (TriMoE 5.1.2).
    Settled: residents and striped experts, which NDP cannot run, are on the GPU; of the localized
    ones the H with most tokens (ties: lowest id) join them, with the H of least makespan, the
    smallest such H at a tie.
    """
    c = instance.columns
    movable = (c.dimm != STRIPED) & ~c.resident
    order = np.array(_by_falling_tokens(c, movable), dtype=np.int64)
    fixed = ~movable
    gpu = c.gpu_ns[fixed].sum() + _prefix_sums(c.gpu_ns[order])
    own = fixed & (c.dimm != STRIPED)
    # Row h: DIMM loads with the h hottest on the GPU, first as changes from the row before.
    dimm = np.zeros((len(order) + 1, instance.dimms), dtype=np.int64)
    dimm[0] = c.gpu_dram_ns[fixed & (c.dimm == STRIPED)].sum()
    np.add.at(dimm[0], c.dimm[own], c.gpu_dram_ns[own])
    np.add.at(dimm[0], c.dimm[order], c.ndp_ns[order])
    dimm[np.arange(len(order)) + 1, c.dimm[order]] = (c.gpu_dram_ns - c.ndp_ns)[order]
    dimm = dimm.cumsum(axis=0)
    hot = int(np.maximum(gpu, dimm.max(axis=1)).argmin())
    choice = np.full(len(instance.experts), GPU)
    choice[order[hot:]] = NDP
    return _solution(instance, choice)


def fiddler(instance: Instance) -> Solution:
    """GPU and CPU, the later of the two as early as possible (Fiddler as its text describes it).

    The original enumerates the 2**8 splits of one layer. With hundreds of experts the same minimum
    comes from a table over the GPU's time: least CPU time for each total GPU time. Exact where the
    costs' common divisor gives at most `FIDDLER_GRID` steps, else GPU times are rounded up to
    that many. Its profiled constants (7 per token on the CPU, 70 per load) are replaced by the
    instance's costs. It knows nothing of DIMM contention.
    """
    c = instance.columns
    limit = int(min(c.gpu_ns.sum(), c.cpu_ns.sum()))  # all on one host is a split, too
    step = max(int(np.gcd.reduce(c.gpu_ns)), -(-limit // FIDDLER_GRID), 1)
    cost = -(-c.gpu_ns // step)
    size = limit // step + 1
    cpu = np.full(size, np.inf)
    cpu[0] = 0
    on_gpu = np.zeros((len(cost), size), dtype=np.bool_)
    for row, width in enumerate(cost.tolist()):
        taken = np.full(size, np.inf)
        if width < size:
            taken[width:] = cpu[: size - width]
        cpu = cpu + c.cpu_ns[row]
        on_gpu[row] = taken < cpu
        cpu = np.minimum(cpu, taken)
    at = int(np.maximum(cpu, np.arange(size) * step).argmin())
    choice = np.full(len(cost), CPU)
    for row in range(len(cost) - 1, -1, -1):
        if on_gpu[row, at]:
            choice[row] = GPU
            at -= int(cost[row])
    return _solution(instance, choice)


def fiddler_as_coded(instance: Instance) -> Solution:
    """GPU and CPU, the sum of all costs least (Fiddler as its code computes it).

    The comment in the source says that the later of CPU and GPU is minimised, the code adds the two
    up. The sum is least when each expert takes its own cheaper path (tie: GPU).
    """
    c = instance.columns
    return _solution(instance, np.where(c.gpu_ns <= c.cpu_ns, GPU, CPU))


def hybrimoe(instance: Instance) -> Solution:
    """GPU and CPU from both ends of one queue (HybriMoE's hybrid scheduling).

    Residents by falling tokens, then non-residents by falling tokens (ties: lowest id). The GPU
    takes the head and the CPU the tail, whichever would finish earlier (tie: GPU). Settled: the
    original overlaps a transfer with earlier GPU work; here ``gpu_ns`` is the complete path, run
    serially.
    """
    c = instance.columns
    queue = _by_falling_tokens(c, c.resident) + _by_falling_tokens(c, ~c.resident)
    gpu_ns, cpu_ns = c.gpu_ns.tolist(), c.cpu_ns.tolist()
    choice = np.full(len(queue), GPU)
    gpu = cpu = head = 0
    tail = len(queue) - 1
    while head <= tail:
        gpu_end, cpu_end = gpu + gpu_ns[queue[head]], cpu + cpu_ns[queue[tail]]
        if gpu_end <= cpu_end:
            gpu, head = gpu_end, head + 1
        else:
            choice[queue[tail]] = CPU
            cpu, tail = cpu_end, tail - 1
    return _solution(instance, choice)


HEURISTICS: dict[str, Callable[..., Solution]] = {
    "greedy": greedy,
    "trimoe": trimoe,
    "klotski": klotski,
    "ktransformers": ktransformers,
    "monde": monde,
    "fiddler": fiddler,
    "fiddler-as-coded": fiddler_as_coded,
    "hybrimoe": hybrimoe,
}

WARM_START = trimoe
"""The heuristic whose schedule the exact methods start from."""


def _solution(instance: Instance, choice: Choice) -> Solution:
    assignment = tuple(DOMAINS[domain] for domain in choice.tolist())
    return Solution(instance=instance.name, assignment=assignment)


def _cheapest_path(c: Columns) -> Choice:
    never = np.iinfo(np.int64).max
    ndp_ns = np.where(c.dimm == STRIPED, never, c.ndp_ns)
    return np.asarray(np.stack([c.gpu_ns, c.cpu_ns, ndp_ns]).argmin(axis=0))


def _by_falling_tokens(c: Columns, mask: NDArray[np.bool_]) -> list[int]:
    """Return the rows in `mask`, most tokens first, ties by the lowest expert id."""
    rows = np.flatnonzero(mask)
    ordered: list[int] = rows[np.lexsort((c.expert[rows], -c.tokens[rows]))].tolist()
    return ordered


def _prefix_sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], values.cumsum()])
