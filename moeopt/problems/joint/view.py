"""What reports say about a joint plan, and what each device does in it."""

from collections.abc import Iterator

from moeopt.core.view import Changes, Difference, Kind, Lane, in_turn, replaced

from .check import layer_runs, loss, memory_bytes, step_times_ns
from .instance import Instance, Solution


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return GPU, CPU and copies with the work of all steps, one bar per layer.

    In truth they take turns, step by step and layer by layer, and wait for each other.
    """
    context = instance.contexts[solution.context or 0]
    steps = len(instance.steps)
    gpu = [steps * (a + s) for a, s in zip(context.attention_ns, instance.shared_ns, strict=True)]
    now, late, copies = ([0] * instance.layers for _ in range(3))
    for run in layer_runs(instance, solution):
        gpu[run.layer] += run.gpu_ns
        now[run.layer] += run.now_ns
        late[run.layer] += run.late_ns
        copies[run.layer] += run.copy_ns
    cpu: list[tuple[int, str, Kind]] = []
    for layer in range(instance.layers):
        cpu += [(now[layer], str(layer), "work"), (late[layer], str(layer), "deferred")]
    return [_lane("GPU", gpu), in_turn("CPU", cpu), _lane("copies", copies)]


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return what takes longest, what is decided in numbers, and the budgets' use."""
    times, copies = step_times_ns(instance, solution)
    runs = list(layer_runs(instance, solution))
    on_gpu, on_cpu = (
        sum(run.gpu_ns for run in runs),
        sum(run.now_ns + run.late_ns for run in runs),
    )
    bottleneck = "copies" if copies > sum(times) else "CPU" if on_cpu > on_gpu else "GPU"
    gpu_bytes, host_bytes = memory_bytes(instance, solution)
    return {
        "bottleneck": bottleneck,
        "context": instance.contexts[solution.context or 0].name,
        "residents": sum(map(len, solution.resident)),
        "cache_ways": sum(ways or 0 for ways in solution.ways),
        "deferred": sum(count or 0 for count in solution.deferred),
        "kept_off_gpu": len(solution.swapped),
        "gpu_bytes": gpu_bytes,
        "host_bytes": host_bytes,
        "loss": loss(instance, solution),
    }


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield decisions that differ: experts by their bits, layers by counts, then the context."""
    if ours.context != best.context:
        names = [instance.contexts[plan.context or 0].name for plan in (ours, best)]
        yield instance.experts, "context", names[0], names[1]
    words = {False: "CPU", True: "GPU"}
    for layer in range(instance.layers):
        for name in ("ways", "deferred"):
            a, b = (getattr(plan, name)[layer] or 0 for plan in (ours, best))
            if a != b:
                yield abs(a - b), f"layer {layer}", f"{a} {name}", f"{b} {name}"
        for e in range(instance.experts):
            pairs = [
                (words[e in plan.resident[layer]], plan.bits[layer][e]) for plan in (ours, best)
            ]
            if pairs[0] != pairs[1]:
                said = [f"{where}, {bits} bits" for where, bits in pairs]
                yield 1, f"layer {layer}, expert {e}", said[0], said[1]


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield another count of ways or deferred experts in a layer, residents and widths.

    Residents are added, left out, or exchanged for another one of their layer; widths are the next
    ones. What is swapped stays so as far as it can.
    """

    def plan(name: str, layer: int, value: object) -> Solution:
        values = replaced(getattr(solution, name), layer, value)
        return solution.model_copy(update={name: values})

    for layer in range(instance.layers):
        where = f"layer {layer}"
        for name in ("ways", "deferred"):
            count = getattr(solution, name)[layer] or 0
            for other in (count - 1, count + 1):
                if other >= 0:
                    yield f"{where}: {other} {name} and not {count}", plan(name, layer, other)
        on = solution.resident[layer]
        for expert in range(instance.experts):
            what = f"{where}, expert {expert}"
            if expert in on:
                left = tuple(e for e in on if e != expert)
                yield f"{what} not resident", plan("resident", layer, left)
            else:
                yield f"{what} resident", plan("resident", layer, (*on, expert))
                for e in on:
                    rest = (*(other for other in on if other != e), expert)
                    yield f"{what} resident and not {e}", plan("resident", layer, rest)
            width = solution.bits[layer][expert] or 0
            place = instance.bits.index(width)
            for bits in instance.bits[max(0, place - 1) : place + 2]:
                if bits != width:
                    row = replaced(solution.bits[layer], expert, bits)
                    yield f"{what}: {bits} bits and not {width}", plan("bits", layer, row)


def _lane(device: str, lengths: list[int]) -> Lane:
    return in_turn(device, ((ns, str(layer), "work") for layer, ns in enumerate(lengths)))
