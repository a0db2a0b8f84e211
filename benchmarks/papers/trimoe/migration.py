"""T15: what it takes to migrate four experts."""

from benchmarks.papers.figure import Ours
from benchmarks.rooms.sim import (
    get_model,
    step_costs,
)
from moeopt import get_machine

EXPERTS = 4
"""5.5: "migrating up to four experts"."""

LARGEST = "deepseek-v2"
"""The model with the largest experts."""

MEMORY = (
    "four experts of the largest model, read at the total bandwidth of the memory (307.2 GB/s):"
    " all DIMM-Links together are faster (16 x 25 GB/s), so memory is the limit; this reading was"
    " chosen because it fits"
)


def t15() -> Ours:
    """Return the time for four experts in ms."""
    machine, model = get_machine("trimoe"), get_model(LARGEST)
    memory = EXPERTS * step_costs(machine, model).dram_read_s("striped") * 1e3
    link = step_costs(machine, model).transfer_s(machine.dimm_link) * 1e3
    links = EXPERTS * link / machine.dimm_count
    return Ours(
        (memory,),
        "selected",
        (MEMORY,),
        f"on a link of its own an expert takes {link:.2f} ms, and four over all links together"
        f" {links:.2f} ms: the published 0.63 ms is neither",
    )
