"""The paper's scheduler and the named baselines, each restricted to the domains its system has.

All of them take the fixed layout as it is, and every cost is the instance's complete path cost: a
baseline that overlaps transfers with computation inside one expert has that in ``gpu_ns`` already
(Eq. 2 is a maximum), and overlap between experts does not exist in schema 1 (Eq. 5 is a sum).

In schema 2 with two-part runs on the GPU one expert's transfer does overlap another's computation.
`klotski` and `hybrimoe` are built on that; the cost models of the others know complete paths only.

Keyword arguments are the assumptions of `moeopt.problems.tri_domain.assumptions`; a value that a
assumption has not is an `InputError`.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.assumptions import check_assumed
from moeopt.core.compiled import short
from moeopt.problems import device_loads
from moeopt.problems.device_loads import loads_of, makespan_of

from .assumptions import ASSUMPTIONS
from .instance import DOMAINS, STRIPED, Columns, Instance, Solution, solution_of

GPU, CPU, NDP = range(3)

Choice = NDArray[np.int64]
"""One of GPU, CPU, NDP per expert."""

Flags = NDArray[np.bool_]

FIDDLER_GRID = 2**15
"""Resolution of the two-machine split in `fiddler` where the costs have no coarser grid."""

NEVER = 2**62
"""Later than any split."""


TIE_ORDERS: dict[str, tuple[int, ...]] = {
    "cpu": (CPU, GPU, NDP),
    "gpu": (GPU, CPU, NDP),
    "ndp": (NDP, CPU, GPU),
}
"""Value of the assumption ``tie_order`` -> which of several cheapest paths is taken first."""


def cheapest_path(cost_ns: NDArray[np.int64], tie_order: str = "cpu") -> Choice:
    """Return each expert's cheapest domain (TriMoE 4.2, initial assignment).

    Parameters
    ----------
    cost_ns
        Cost on GPU, CPU and NDP, of shape (3, ...); a path that does not exist costs more than any.
    tie_order
        Which of several cheapest paths is taken, see `TIE_ORDERS`.
    """
    order = np.array(TIE_ORDERS[tie_order])
    return np.asarray(order[cost_ns[order].argmin(axis=0)])


def greedy(instance: Instance, *, tie_order: str = "cpu") -> Solution:
    """Each expert takes its cheapest path (TriMoE 4.2, initial assignment)."""
    check_assumed("greedy", {"tie_order": tie_order}, ASSUMPTIONS)
    return _solution(instance, cheapest_path(_path_costs(instance.columns), tie_order))


def trimoe(
    instance: Instance, *, tie_order: str = "cpu", refinement: str = "one", delta: str = "growth"
) -> Solution:
    """TriMoE's scheduler: `greedy`, then the bottleneck-aware refinement (TriMoE 4.2).

    As the paper words it: the bottleneck device's most costly expert is the one candidate; of the
    other devices it moves to the one that gives the smallest new makespan, at a tie to the one
    whose own total grows least; it ends when the makespan no longer falls.

    The same under all assumptions: the bottleneck is one device or one DIMM (ties: GPU, CPU,
    lowest DIMM); on a DIMM the candidates are its NDP experts, and a bottleneck DIMM without NDP
    work ends the refinement; equally costly experts go by the lowest id; of moves that are equal in
    everything the first of gpu, cpu, ndp is made; there is no iteration limit, since the strict
    decrease makes the loop finite. In schema 2 the makespan includes the channels and the PCIe
    link. The link belongs to the GPU; on a bottleneck channel (ties: after all devices) the
    candidates are the localized experts that a host reads through it.
    """
    assumed = {"tie_order": tie_order, "refinement": refinement, "delta": delta}
    check_assumed("trimoe", assumed, ASSUMPTIONS)
    start = cheapest_path(_path_costs(instance.columns), tie_order)
    return _solution(instance, refine(instance, start, refinement=refinement, delta=delta))


def refine(
    instance: Instance, start: Choice, *, refinement: str = "one", delta: str = "growth"
) -> Choice:
    """Return a schedule improved by TriMoE's bottleneck-aware refinement; see `trimoe`.

    Parameters
    ----------
    start
        The schedule to start from, int64 of shape (experts,): `GPU`, `CPU`, `NDP`.
    refinement, delta
        The assumptions of these names.
    """
    # Of equally costly experts the first is moved.
    order = np.argsort(instance.columns.expert, kind="stable")
    table = instance.device_table
    # The base load, if any, stays last. Kernels are compiled for tables in C order.
    experts = np.ascontiguousarray(np.hstack([table[:, order], table[:, len(order) :]]))
    choice = start[order]
    device_loads.refine(experts, choice, instance.dimms, refinement == "all", delta == "growth")
    found = np.empty_like(choice)
    found[order] = choice
    return found


def quick_schedule(instance: Instance) -> Solution:
    """Return a schedule of all copies by descent: to compare layouts, and to start from.

    No system's rule. It starts with each expert on the NDP unit of its first localized copy, the
    others on the CPU (`ModeTable.descended`).
    """
    modes = instance.modes
    cheapest = {"ndp": 0, "cpu": 1, "gpu": 2}
    order = sorted(
        range(len(modes.label)), key=lambda at: (modes.owner[at], cheapest[modes.label[at].path])
    )
    start = np.array(order)[modes.first]
    chosen = [modes.label[at] for at in modes.descended(start).tolist()]
    return solution_of(instance, [(mode.path, mode.copy) for mode in chosen])


def klotski(instance: Instance) -> Solution:
    """Everything runs on the GPU (Klotski, as TriMoE 5.1.2 describes it: GPU only).

    Its idea, hiding one expert's transfer behind another's computation, is invisible in schema 1:
    Eq. 5 adds up complete path costs. With two-part runs the GPU is done after the longer of all
    transfers and all computation.
    """
    return _solution(instance, np.full(len(instance.experts), GPU))


def ktransformers(instance: Instance, *, hot_loading: str = "while it helps") -> Solution:
    """GPU and CPU: residents on the GPU, the rest on the CPU, hot ones loaded on demand.

    TriMoE 5.1.2 calls it Enhanced KTransformers: "prefetching and on-demand loading of hot experts
    on top of its processing of all non-shared experts using AMX-CPU". Non-residents move from the
    CPU to the GPU in order of falling token count (ties: lowest id) as long as the later of the two
    totals gets strictly earlier. DIMM contention is not looked at, as in the original.
    """
    check_assumed("ktransformers", {"hot_loading": hot_loading}, ASSUMPTIONS)
    c = instance.columns
    choice = np.where(c.resident, GPU, CPU)
    if hot_loading == "none":
        return _solution(instance, choice)
    gpu = instance.base_ns + int(c.gpu_ns[c.resident].sum())
    cpu = int(c.cpu_ns[~c.resident].sum())
    for row in _by_falling_tokens(c, ~c.resident):
        moved = gpu + int(c.gpu_ns[row]), cpu - int(c.cpu_ns[row])
        if max(moved) >= max(gpu, cpu):
            break
        choice[row] = GPU
        gpu, cpu = moved
    return _solution(instance, choice)


def monde(instance: Instance, *, striped_experts: str = "gpu") -> Solution:
    """GPU and NDP: the hottest experts move their weights to the GPU, the others stay on NDP.

    MoNDE balances the two by the cost of moving weights against moving activations (TriMoE 5.1.2).
    Residents are on the GPU, and so are striped experts, which NDP cannot run, unless
    `striped_experts` says otherwise; of the localized ones the H with most tokens (ties: lowest id)
    join them, with the H of least makespan, the smallest such H at a tie.
    """
    check_assumed("monde", {"striped_experts": striped_experts}, ASSUMPTIONS)
    c, experts, dimms = instance.columns, instance.device_table, instance.dimms
    striped = c.dimm == STRIPED
    choice = np.where(striped & ~c.resident & (striped_experts == "cpu"), CPU, GPU)
    hottest_first = _by_falling_tokens(c, ~striped & ~c.resident)
    choice[hottest_first] = NDP
    best, least = choice.copy(), makespan_of(loads_of(experts, choice, dimms), dimms)
    for row in hottest_first:
        choice[row] = GPU
        makespan = makespan_of(loads_of(experts, choice, dimms), dimms)
        if makespan < least:
            best, least = choice.copy(), makespan
    return _solution(instance, best)


def fiddler(instance: Instance) -> Solution:
    """GPU and CPU, the later of the two as early as possible (Fiddler as its text describes it).

    The original enumerates the 2**8 splits of one layer. With hundreds of experts the same minimum
    comes from a table over the GPU's time: least CPU time for each total GPU time. Exact where the
    costs' common divisor gives at most `FIDDLER_GRID` steps, else GPU times are rounded up to
    that many. Its profiled constants (7 per token on the CPU, 70 per load) are replaced by the
    instance's costs. It knows nothing of DIMM contention.
    """
    c = instance.columns
    split = best_splits(c.gpu_ns[None], c.cpu_ns[None], instance.base_ns)[0]
    return _solution(instance, np.where(split, GPU, CPU))


def best_splits(gpu_ns: Choice, cpu_ns: Choice, base_ns: int = 0) -> Flags:
    """Return which experts the GPU runs for the later of the two to be as early as possible.

    The table of least CPU times over GPU times; of equal splits the one with least GPU time. It is
    kept small: no split is later than one that is known; so the GPU gets at least what the CPU
    cannot do by then.

    Parameters
    ----------
    gpu_ns, cpu_ns
        What each expert takes on either host, int64 of shape (layers, experts).
    base_ns
        What the GPU does besides.
    """
    limit = np.minimum(gpu_ns.sum(axis=1), cpu_ns.sum(axis=1))
    step = np.maximum(np.gcd.reduce(gpu_ns, axis=1), np.maximum(-(-limit // FIDDLER_GRID), 1))
    width = -(-gpu_ns // step[:, None])
    # All on the GPU is a split that is known, by times that are rounded up like all others.
    limit = np.minimum((width * step[:, None]).sum(axis=1), cpu_ns.sum(axis=1))
    range_ns = _range(width * step[:, None], cpu_ns, limit // step * step, base_ns)
    span = np.vstack([range_ns // step + [[0], [1]], step])
    taken = np.empty((gpu_ns.shape[1], span[1].max()), np.bool_)
    return _splits(width, np.ascontiguousarray(cpu_ns), span, base_ns, taken)


def _range(gpu_ns: Choice, cpu_ns: Choice, limit_ns: Choice, base_ns: int) -> Choice:
    """Return each layer's least and most time on the GPU in any split that is not late.

    The experts that cost the GPU least for what they relieve the CPU of go first: some such split
    is known, and no other relieves the CPU enough in less time than those that are not enough.
    """
    order = np.where(cpu_ns > 0, gpu_ns / np.maximum(cpu_ns, 1), np.inf).argsort(1, kind="stable")
    moved = np.zeros((2, len(order), order.shape[1] + 1), np.int64)
    for cost_ns, out in zip((gpu_ns, cpu_ns), moved, strict=True):
        np.take_along_axis(cost_ns, order, axis=1).cumsum(axis=1, out=out[:, 1:])
    gpu, cpu = moved[0], moved[1, :, -1:] - moved[1]
    later = np.where(gpu <= limit_ns[:, None], np.maximum(base_ns + gpu, cpu), NEVER)
    latest = later.min(axis=1)
    return np.stack([np.where(cpu > latest[:, None], gpu, 0).max(axis=1), latest - base_ns])


@short(2**19)
def _splits(width: Choice, cpu_ns: Choice, span: Choice, base_ns: int, taken: Flags) -> Flags:
    """Fill in each layer's table and return its best split.

    `width` is what each expert takes on the GPU, in steps; `span`, of shape (3, layers), the first
    entry of the table that may be the best, how many there are, and the length of a step; `taken`
    has room for whether each expert is the GPU's, by entry.
    """
    layers, experts = width.shape
    split = np.zeros((layers, experts), np.bool_)
    least = np.empty((2, taken.shape[1]), np.int64)
    for layer in range(layers):
        first, size, step = span[0, layer], span[1, layer], span[2, layer]
        for at in range(size):
            least[0, at] = least[1, at] = NEVER
        least[0, 0] = 0
        # After a row the GPU has at most what was offered, at least what later rows cannot make up.
        end, left = 1, 0
        for row in range(experts):
            left += width[layer, row]
        for row in range(experts):
            shift, length = width[layer, row], cpu_ns[layer, row]
            end, left = min(end + shift, size), left - shift
            begin = max(first - left, 0)
            come = max(begin, shift)
            now, other = least[row % 2], least[1 - row % 2]
            for at in range(begin, min(come, end)):
                other[at], taken[row, at] = now[at] + length, False
            # Slices that begin at 0 spare a look for negative indices at each entry.
            behind, here, out, mark = (
                now[come - shift :],
                now[come:],
                other[come:],
                taken[row, come:],
            )
            for n in range(end - come):
                out[n] = min(here[n] + length, behind[n])
                mark[n] = behind[n] < here[n] + length
        best, found = NEVER, first
        for at in range(first, size):
            later = max(least[experts % 2, at], base_ns + at * step)
            if later < best:
                best, found = later, at
        for row in range(experts - 1, -1, -1):
            if taken[row, found]:
                split[layer, row] = True
                found -= width[layer, row]
    return split


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
    takes the head and the CPU the tail, whichever would finish earlier (tie: GPU). With two-part
    runs the GPU finishes the head's computation after the transfers so far and its own, which
    overlap earlier computation, as in the original. In schema 1 ``gpu_ns`` is the complete path,
    run serially, and `ktransformers` ends as well as this rule.

    Proof. Let G(h) be the GPU time of the queue's first h experts, C(h) the CPU time of the others,
    f(h) = max(G(h), C(h)); some h of least f has all residents, and CPU times are positive. With j
    experts on the GPU and those after the t-th on the CPU, this rule sees G(j+1) <= C(t-1), hence
    f(h) >= C(j) >= f(j+1) for all h <= j, and takes j + 1; or f(h) >= G(t) >= G(j+1) > C(t-1),
    hence f(h) >= f(t-1) for all h >= t, and takes t - 1: a best h stays in [j, t] until they meet.
    `ktransformers` raises h from the residents' number while f falls; where it stops G(h+1) >=
    C(h) > C(h+1), else f(h+1) < f(h); so f(h') >= G(h+1) = f(h+1) >= f(h) for all h' > h.
    """
    c = instance.columns
    queue = _by_falling_tokens(c, c.resident) + _by_falling_tokens(c, ~c.resident)
    work_ns, pcie_ns, cpu_ns = c.gpu_work_ns.tolist(), c.pcie_ns.tolist(), c.cpu_ns.tolist()
    choice = np.full(len(queue), GPU)
    gpu, link, cpu, head = instance.base_ns, 0, 0, 0
    tail = len(queue) - 1
    while head <= tail:
        moved = link + pcie_ns[queue[head]] if pcie_ns[queue[head]] else 0
        gpu_end = max(gpu, moved) + work_ns[queue[head]]
        cpu_end = cpu + cpu_ns[queue[tail]]
        if gpu_end <= cpu_end:
            gpu, link, head = gpu_end, max(link, moved), head + 1
        else:
            choice[queue[tail]] = CPU
            cpu, tail = cpu_end, tail - 1
    return _solution(instance, choice)


WARM_START = trimoe
"""The heuristic whose schedule the exact methods start from."""


def _solution(instance: Instance, choice: Choice) -> Solution:
    assignment = tuple(DOMAINS[domain] for domain in choice.tolist())
    return Solution(instance=instance.name, assignment=assignment)


def _path_costs(c: Columns) -> NDArray[np.int64]:
    """Return each path's cost, of shape (3, experts); the largest number where there is none."""
    never = np.iinfo(np.int64).max
    return np.stack([c.gpu_ns, c.cpu_ns, np.where(c.dimm == STRIPED, never, c.ndp_ns)])


def _by_falling_tokens(c: Columns, mask: NDArray[np.bool_]) -> list[int]:
    """Return the rows in `mask`, most tokens first, ties by the lowest expert id."""
    rows = np.flatnonzero(mask)
    ordered: list[int] = rows[np.lexsort((c.expert[rows], -c.tokens[rows]))].tolist()
    return ordered
