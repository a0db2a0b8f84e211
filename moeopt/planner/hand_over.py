"""Writing a finished plan: for the engine, for the checker, and for runtimes."""

from pathlib import Path

from moeopt.core.errors import MoeoptError
from moeopt.core.json_files import check_folder, save, write_bytes
from moeopt.exporters.exported import RUN_SUFFIX, OptionValue
from moeopt.exporters.run import export
from moeopt.exporters.target import Target
from moeopt.exporters.targets import targets_of
from moeopt.exporters.targets.ktransformers import deferral_flag
from moeopt.sim.machines.runtimes.command import running
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.traces.workload import Workload

from .planned import Planned


def _running(planned: Planned, target: Target) -> dict[str, OptionValue]:
    """Return what a runtime is told beside the plan, where its target asks for it."""
    request = planned.request
    how = running(Setting(request.machine, request.model, context=request.cache))
    values: dict[str, OptionValue | None] = {
        "context": how.context,
        "cache_type": how.kv[0],
        "threads": how.threads,
        "sockets": how.pools,
    }
    for decision in planned.chosen.decisions:
        if decision.name == "deferral":
            values["deferral"] = decision.solution, decision.instance
    asked = {option.name for option in target.options}
    return {name: v for name, v in values.items() if name in asked and v is not None}


def hand_over(planned: Planned, folder: Path) -> list[str]:
    """Write plan, instances, solutions and the runtimes' files; return a line for each.

    A format that does not take the plan gets a line that says why, and no file. The runtimes' flags
    are in ``flags.txt``. A runtime's own plan stands beside it where this one is no faster on
    held-out steps.

    Raises
    ------
    InputError
        If the folder cannot be written to.
    """
    check_folder("--export", folder)
    save(planned.chosen.plan, folder / "plan.json")
    lines = ["plan.json: for `moeopt simulate --plan`"]
    flags = []
    for decision in planned.chosen.decisions:
        save(decision.instance, folder / f"{decision.name}-instance.json.gz")
        save(decision.solution, folder / f"{decision.name}-solution.json")
        lines.append(f"{decision.name}-solution.json: for `moeopt check` and `moeopt export`")
        for target in targets_of(decision.instance.problem):
            name = target.name
            if isinstance(planned.request.trace, Workload) and target.names_experts:
                lines.append(f"{name}: nothing written: the workload's experts are made up")
                continue
            try:
                made = export(
                    decision.solution,
                    decision.instance,
                    to=name,
                    model=planned.request.model,
                    options=_running(planned, target),
                    **planned.request.limits.asked,
                )
                path, _ = made.save(folder / f"{decision.name}-{name}{made.suffix}")
            except MoeoptError as error:
                lines.append(f"{name}: nothing written: {error}")
                continue
            script = f", started by {path.name}{RUN_SUFFIX}" if made.script else ""
            lines.append(f"{path.name}: for {target.summary}{script}")
            if made.loss is not None:
                lines.append(f"  {made.loss}")
            lines += [f"  warning: {warning}" for warning in made.warnings]
            if made.flags is not None:
                flags.append(f"{name}: {made.flags(path)}")
    counts = set(planned.chosen.plan.deferred)
    if len(counts) == 1 and counts != {0}:
        flags.append(f"ktransformers: {deferral_flag(counts.pop())}")
    found = planned.verdict
    if found is not None and found.word != "faster" and found.best.default is not None:
        save(found.best.plan, folder / "default.json")
        lines.append(f"default.json: {found.best.plan.name}, no slower on held-out steps")
        flags.append(f"instead, {found.best.default.runtime}: {found.best.default.flags}")
    text = "".join(f"{line}\n" for line in flags)
    write_bytes(text.encode(), folder / "flags.txt")
    return [*lines, "flags.txt: the runtimes' flags"]
