"""balance: the closed form of the flow shop, with sums per unit to branch on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.library.lemmas.rows import LemmaModel

if TYPE_CHECKING:
    from moeopt.problems.balance import Instance

CLOSED_FORM = "the makespan of the flow shop of link and GPU in closed form"


def link_and_units(instance: "Instance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: slices by expert and unit, and the pulled expert that is computed last."""
    made = LemmaModel(CLOSED_FORM, tighten=True)
    units, held, wait = range(instance.ndp_units), instance.slices_per_unit, instance
    makespan, kept = made.whole(0, below - 1), made.whole(0, 1)
    gpu = [(kept, wait.gpu_overhead_ns), (makespan, -1)]
    ndp = [[(kept, wait.ndp_overhead_ns), (makespan, -1)] for _ in units]
    pulled: list[list[int]] = [[] for _ in units]
    every, away_work, last, work = [], [], [], 0
    for expert in sorted(instance.experts, key=lambda one: one.slice_gpu_ns):
        taken = [made.whole(0, held) for _ in units]
        every += taken
        work += held * expert.slice_ndp_ns
        for unit in units:
            ndp[unit].append((taken[unit], -expert.slice_ndp_ns))
        gpu += [(one, expert.slice_gpu_ns) for one in taken]
        if not expert.resident:
            away_work += [(one, expert.slice_gpu_ns) for one in taken]
            flag = made.whole(0, 1)
            last.append((flag, expert.slice_gpu_ns))
            made.row([(flag, 1), *((one, -1) for one in taken)], "<=", 0, "BA-C2")
            for unit in units:
                pulled[unit].append(taken[unit])
    made.row(gpu, "<=", 0, "BA-C2")
    for row in ndp:
        made.row(row, "<=", -work, "BA-C3")
    all_slices = len(every) * held
    made.row([(kept, all_slices), *((one, 1) for one in every)], ">=", all_slices, "BA-C3")
    made.first = [kept]
    if last:
        none = made.whole(0, 1)
        made.one([none, *(flag for flag, _ in last)], "BA-C2")
        sums = [made.whole(0, len(last) * held) for _ in units]
        for total, taken in zip(sums, pulled, strict=True):
            made.row([(total, -1), *((one, 1) for one in taken)], "=", 0, "sum")
        most = len(last) * held * instance.ndp_units
        made.row([(none, most), *((total, 1) for total in sums)], "<=", most, "BA-C2")
        due = [(kept, wait.gpu_overhead_ns), (makespan, -1)]
        transfer = instance.slice_transfer_ns
        made.row([*((total, transfer) for total in sums), *last, *due], "<=", 0, "BA-C2")
        made.row([*away_work, *due, (none, -transfer)], "<=", -transfer, "BA-C2")
        made.first += [none, *sums]
    made.objective = [[makespan, 1]]
    return made
