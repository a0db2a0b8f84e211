"""Threshold search: an optimal schedule, proven, mostly in a fraction of a millisecond.

For a threshold C: is there a schedule of makespan at most C? Each DIMM answers by itself what it
costs the hosts to keep it within C (`pareto`); a weight between GPU and CPU bounds from below what
they need for all of them (`weights`); two lists of labels answer exactly (`split`, `check`). The
search (`search`) raises C from the least value that the bound leaves open, and starts from a
schedule built at once (`incumbent`).

Proof that what is called optimal is. (1) An expert whose DIMM is busy no longer with its NDP work
than with a host's read loses nothing by leaving that host: the DIMM's load does not rise, the
host's falls. (2) For given striped reads the DIMMs are independent: DIMM d's load depends on its
own experts only, and the rest of the problem sees of their choice the two host times alone. Of two
choices within C, one that is no better in GPU time, CPU time and load can be replaced by the other,
so the undominated ones suffice. (3) With striped reads taken at their least, more choices fit, so
what is impossible then is impossible. (4) If the weighted sum of the groups' least weighted costs
exceeds C, so does the later host: it is at least any weighted average of the two. (5) A choice
within C has a weighted cost of at most C, hence a regret (its excess over the least) of at most C
less the bound; every partial choice that is dropped has more regret, or another one is no worse in
both host times. So the pair search misses no better choice. (6) Where the schedule found runs a
striped expert on the host with the longer read, one branch binds it to either host: together they
cover all schedules. (7) Every makespan is a multiple of the costs' greatest common divisor, so
thresholds between multiples need no answer. Sums and weighted sums are integers below 2**62. The
search ends with C refuted one step below the makespan of the schedule at hand. Details:
`formulations/tri_domain/spec.md`, "Threshold search".
"""

import numpy as np

from moeopt.problems.device_loads import Ints, table_of
from moeopt.problems.search import Search
from moeopt.problems.tri_domain.instance import Instance
from moeopt.problems.tri_domain.solution import DOMAINS, Solution

from .incumbent import quick_schedule
from .search import certify, narrow

__all__ = ["certify", "quick_schedule", "solve"]

FIRST_WORK = 2**19
"""Labels to look at before the clock is asked: some 10 ms."""

MOST_WORK = 2**23
"""Labels to look at in one go before it is left to another method: some 100 ms."""

NO_CUTOFF = int(np.iinfo(np.int64).max)


def solve(instance: Instance, search: Search) -> None:
    """Find an optimal schedule and prove it, or report the best and the bound reached.

    The effort grows fourfold from round to round, up to `MOST_WORK` labels: what is then open has
    too many ways to relieve its DIMMs, or too many residents that could also run on the CPU.
    """
    c = instance.columns
    columns = (c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)
    work = FIRST_WORK
    lower, upper, domain = certify(*columns, instance.dimms, NO_CUTOFF, work)
    _report(instance, search, lower, upper, domain)
    while lower < upper and work < MOST_WORK and not search.stopped:
        work *= 4
        lower, upper, domain = narrow(
            table_of(*columns), instance.dimms, domain, lower, NO_CUTOFF, work
        )
        _report(instance, search, lower, upper, domain)
    search.note = "OPTIMAL" if lower == upper else "OPEN"


def _report(instance: Instance, search: Search, lower: int, upper: int, domain: Ints) -> None:
    assignment = tuple(DOMAINS[d] for d in domain.tolist())
    search.offer(Solution(instance=instance.name, assignment=assignment), int(upper))
    search.prove(int(lower))
