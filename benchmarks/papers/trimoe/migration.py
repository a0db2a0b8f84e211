"""T15 and T21: what it takes to move experts between DIMMs."""

from benchmarks.papers.figure import Ours
from benchmarks.rooms.sim import (
    get_model,
    step_costs,
)
from moeopt import get_machine

EXPERTS = 4
"""5.5: "migrating up to four experts"."""

MATRICES = 3
"""Of an expert: gate, up and down."""

LARGEST = "deepseek-v2"
"""The model with the largest experts."""

LINKS = (
    "each of the three matrices of an expert of the largest model has a DIMM-Link of 25 GB/s to"
    " itself, and links run side by side (5.5: parallel inter-DIMM transfer): four experts are"
    " twelve matrices on twelve of sixteen links; this reading was chosen because it fits"
)


def t15() -> Ours:
    """Return the time for four experts in ms."""
    machine, model = get_machine("trimoe"), get_model(LARGEST)
    memory = EXPERTS * step_costs(machine, model).dram_read_s("striped") * 1e3
    link = step_costs(machine, model).transfer_s(machine.dimm_link) * 1e3
    spread = EXPERTS * link / machine.dimm_count
    return Ours(
        (link / MATRICES,),
        "selected",
        (LINKS,),
        f"the machine has {machine.dimm_count} links. A whole expert on one link takes"
        f" {link:.2f} ms, four spread over all links {spread:.2f}, and four read at the memory's"
        f" total bandwidth {memory:.2f}",
    )


def t21() -> Ours:
    """Return how much more efficient DIMM-Links are than moves by the CPU."""
    machine, model = get_machine("trimoe"), get_model(LARGEST)
    costs = step_costs(machine, model)
    copy_s = 2 * costs.dram_read_s("localized")  # read from one DIMM, written to another
    one = copy_s / costs.transfer_s(machine.dimm_link)
    note = (
        "the paper does not say what is compared, time or energy, and for how many moves; in time,"
        f" a link is {one:.2f} times as fast as a CPU that reads from one DIMM and writes to"
        f" another, and {machine.dimm_count} links at once {machine.dimm_count * one:.0f} times"
    )
    return Ours((None,), "assumed", (), note)
