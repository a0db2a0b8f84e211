"""Executing a placement of copies: window after window, each device works off its tokens.

A unit of load takes a nanosecond on any device. With kernel times a device receives its tokens, and
then reads experts' weights and computes tokens at once, each by itself. A window ends with its last
device, and the next one begins then. Copies that are not there yet are moved before, one after the
other, and so is paid for slots.
"""

from moeopt.problems.replication.check import device_loads, moved, tokens_of_copies
from moeopt.problems.replication.instance import Instance, Solution
from moeopt.sim.engine.core import BETWEEN, Engine, Executed, Windows
from moeopt.sim.engine.timeline import Resource


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run all windows.

    With an even split each copy is a task; with a free one, whatever the device takes over is one.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the sum of weight x length of the windows, and the moves, in units as objective.
    """
    devices = [f"device {number}" for number in range(instance.devices)]
    parts = devices
    if instance.work == "kernel":
        parts = [f"{name} {does}" for name in devices for does in ("receives", "reads", "computes")]
    copies = moved(instance, solution)
    slots = sum(len(row) - 1 for row in solution.copies) if instance.slot_cost else 0
    several = bool(copies or slots) or len(instance.windows) > 1
    engine = Engine([*map(Resource, [*parts, "moves"]), *[BETWEEN] * several])
    for expert, _ in copies:
        engine.add("moves", instance.move_cost, kind="copy", number=expert)
    for _ in range(slots):
        engine.add("moves", instance.slot_cost, kind="slot")
    windows = Windows(engine)
    objective = windows.end(1, "")
    if instance.work == "kernel":
        for number, tokens in enumerate(
            tokens_of_copies(instance, solution.copies, solution.shares)
        ):
            _add_kernels(engine, instance, solution, tokens, windows.before, f"window {number}")
            objective += windows.end(instance.windows[number].weight, f"window {number}")
        return Executed(engine.timeline(), objective, weights=windows.weights)
    loads = device_loads(instance, solution) if instance.split == "free" else None
    for number, window in enumerate(instance.windows):
        label = f"window {number}"
        if loads is not None:
            for name, units in zip(devices, loads[number], strict=True):
                engine.add(name, units, after=windows.before, kind="tokens", label=label)
        else:
            for expert, row in enumerate(solution.copies):
                units = window.loads[expert] * instance.units_per_token // len(row)
                for device in row:
                    engine.add(
                        devices[device], units, after=windows.before, kind="expert", label=label,
                        number=expert,
                    )  # fmt: skip
        objective += windows.end(window.weight, label)
    return Executed(engine.timeline(), objective, weights=windows.weights)


def _add_kernels(
    engine: Engine,
    instance: Instance,
    solution: Solution,
    tokens: list[list[int]],
    before: tuple[int, ...],
    label: str,
) -> None:
    """Add one window: tokens come to each device, which then reads and computes; see `pass_ns`."""
    received: list[list[tuple[int, int]]] = [[] for _ in range(instance.devices)]
    for expert, (row, counts) in enumerate(zip(solution.copies, tokens, strict=True)):
        for device, count in zip(row, counts, strict=True):
            if count:
                received[device].append((expert, count))
    read_ns, token_ns = instance.read_ns or 0, instance.token_ns or 0
    for device, held in enumerate(received):
        after = before
        if held and (instance.links is not None or instance.pass_ns):
            each = sum(count for _, count in held)
            way = sum(each * row[device] for row in instance.links or ())
            ns = -(-way // instance.devices) + instance.pass_ns * each
            name = f"device {device} receives"
            after = (engine.add(name, ns, after=before, kind="tokens", label=label),)
        for expert, count in held:
            for does, ns in (("reads", read_ns), ("computes", token_ns * count)):
                engine.add(
                    f"device {device} {does}", ns, after=after, kind="expert", label=label,
                    number=expert,
                )  # fmt: skip
