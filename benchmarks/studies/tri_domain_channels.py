"""What memory channels, shares, the GPU's base load and overlap change on the instance library.

    python benchmarks/studies/tri_domain_channels.py [--families a,b] [--instances N] [--limit-s S]

Two questions on stored `tri_domain` instances of TriMoE's machine, whose 16 DIMMs lie on 8
channels. First: do the proven optima of schema 1 keep rows that schema 1 lacks? Each stored
optimum's longest channel, and the GPU with the shared experts of all tokens, over its makespan.
Second: what is the optimum where schema 2 says more, over the optimum of schema 1, and how far are
published rules from it? The settlements are those of `moeopt.problems.tri_domain.settlements`.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import moeopt
from benchmarks.rooms.core import read_object
from benchmarks.rooms.sim import NS_PER_S, computation_s, get_model, to_quanta, transfer_s
from benchmarks.rooms.tri_domain import Instance, Solution, loads
from moeopt import get_machine

LIBRARY = Path(__file__).parents[2] / "instances" / "tri_domain"

FAMILIES = ("deepseek-v2", "qwen3-235b-a22b", "esft-window")
"""Those that `figures` is about: two of TriMoE's models, and real routing."""

ADJACENT = "two DIMMs each"
HALF = {"dimm_share": "1/2", "channels": ADJACENT}
SETTLED: dict[str, dict[str, str]] = {
    "channels": {"channels": ADJACENT},
    "half shares, channels": HALF,
    "+ base load": HALF | {"gpu_base": "shared experts"},
    "+ two parts": HALF | {"gpu_base": "shared experts", "gpu_work": "two parts"},
}
"""What the tables compare with schema 1."""

PAIRINGS = {
    "channel": "channel of DIMMs 2c and 2c + 1",
    "across": "channel of DIMMs c and c + 8",
}
"""Which two DIMMs may share a channel."""

RULES = ("trimoe", "klotski", "ktransformers", "hybrimoe", "monde")


@dataclass(frozen=True)
class Stored:
    """An instance of the library with its best known schedule, a proven optimum or not."""

    instance: Instance
    solution: Solution
    objective: int
    proven: bool


@dataclass(frozen=True)
class Solved:
    """An instance in schema 2: its optimum or the bounds of it, and each rule's makespan, in ns."""

    objective: int
    bound: int
    rules: Mapping[str, int]
    before: int


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated")
    parser.add_argument("--instances", type=int, default=12, help="of each family")
    parser.add_argument("--limit-s", type=float, default=10, help="seconds of each solve")
    arguments = parser.parse_args()
    families = arguments.families.split(",")
    for line in overloads():
        print(line)
    print()
    for line in table(families, arguments.instances, arguments.limit_s):
        print(line, flush=True)


def figures() -> tuple[str, str]:
    """Return the figure of schema 1 and the fair one, in words.

    The first is what stored optima with 16 DIMMs overload on layouts decided on the last step, and
    on fair ones, channels being pairs of DIMMs in either order; the second is how much lower the
    optima of `FAMILIES` are with half shares and channels.
    """
    words = []
    for fair in (False, True):
        pairings = [max(of) for of in zip(*(_overloads(p, fair) for p in PAIRINGS), strict=True)]
        late = [over for over in pairings if over > 1]
        base = [over for over in _overloads("base", fair) if over > 1]
        words.append(
            f"{len(late)} of {len(pairings)} stored optima overload a channel, by up to "
            f"{_percent(late)}; with the shared experts {len(base)} exceed T, by up to "
            f"{_percent(base)}"
        )
    before = f"{words[0]} (on fair layouts {words[1]})"
    medians = []
    for family in FAMILIES:
        settled = solved(family, 12, 10, "half shares, channels")
        ratios = [of.objective / of.before for of in settled]
        medians.append(f"{median(ratios):.2f} ({family})")
    return before, f"optimum over today's, median: {', '.join(medians)}"


def overloads() -> Iterator[str]:
    """Yield what stored optima put on channels and on a GPU with shared experts."""
    yield "| row that schema 1 lacks | layout | optima | overloaded | worst |"
    yield "|---|---|---:|---:|---:|"
    for what, title in (PAIRINGS | {"base": "GPU with shared experts"}).items():
        for fair in (False, True):
            over = _overloads(what, fair)
            late = [ratio for ratio in over if ratio > 1]
            layout = "of an offline trace" if fair else "of the last step"
            yield f"| {title} | {layout} | {len(over)} | {len(late)} | {_percent(late)} |"


def table(families: Sequence[str], instances: int, limit_s: float) -> Iterator[str]:
    """Yield the optimum in schema 2 over that of schema 1, and the rules' excess over it."""
    rules = " | ".join(f"`{rule}`" for rule in RULES)
    yield f"| family | settled | instances | proven | optimum over schema 1 | {rules} |"
    yield "|---|---|---:|---:|---:|" + "---:|" * len(RULES)
    for family in families:
        for settled in ("schema 1", *SETTLED):
            found = solved(family, instances, limit_s, settled)
            proven = sum(of.objective == of.bound for of in found)
            ratios = [of.objective / of.before for of in found]
            cells = [f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"]
            for rule in RULES:
                excess = [of.rules[rule] / of.objective - 1 for of in found]
                cells.append(f"{100 * median(excess):.0f} / {100 * max(excess):.0f} %")
            yield f"| {family} | {settled} | {len(found)} | {proven} | {' | '.join(cells)} |"


@cache
def solved(family: str, instances: int, limit_s: float, settled: str) -> tuple[Solved, ...]:
    """Return the first instances of a family under one of `SETTLED`, or as they are."""
    found = []
    for of in stored(family)[:instances]:
        instance = in_schema_2(of.instance, **SETTLED.get(settled, {}))
        result = moeopt.solve(instance, time_limit_s=limit_s)
        rules = {rule: moeopt.solve(instance, method=rule).objective for rule in RULES}
        found.append(Solved(result.objective, result.bound, rules, of.objective))
    return tuple(found)


def in_schema_2(
    instance: Instance,
    *,
    dimm_share: str = "1",
    channels: str = "none",
    gpu_base: str = "none",
    gpu_work: str = "one path",
) -> Instance:
    """Return a generated instance with settlements that schema 2 can express.

    Parameters
    ----------
    instance
        Of schema 1; its provenance names a preset machine and model, and the batch.
    dimm_share, channels, gpu_base, gpu_work
        Values of the settlements of these names.
    """
    provenance: dict[str, Any] = instance.provenance or {}
    machine, model = get_machine(provenance["machine"]), get_model(provenance["model"])
    quantum = instance.quantum_ns or 1
    fields: dict[str, Any] = {}
    if dimm_share != "1":
        fields["dimm_share"] = (1, 2)
    if channels != "none":
        fields["channels"] = tuple(dimm // 2 for dimm in range(instance.dimms))
    if gpu_base != "none":
        one = computation_s(machine, model, "gpu", provenance["options"]["batch"])
        fields["gpu_base_ns"] = int(to_quanta(one * model.shared_experts * NS_PER_S, quantum))
    if gpu_work != "one path":
        tokens = [expert.tokens for expert in instance.experts]
        calc = to_quanta(computation_s(machine, model, "gpu", tokens) * NS_PER_S, quantum).tolist()
        move = int(to_quanta(transfer_s(machine, model) * NS_PER_S, quantum))
        fields["experts"] = [
            expert.model_dump() | {"gpu_calc_ns": time, "pcie_ns": 0 if expert.resident else move}
            for expert, time in zip(instance.experts, calc, strict=True)
        ]
    if not fields:
        return instance
    return Instance.model_validate(instance.model_dump() | fields | {"schema_version": 2})


@cache
def stored(family: str) -> tuple[Stored, ...]:
    """Return a family's instances of schema 1 with their best known schedules."""
    best = read_object(LIBRARY / "best_known.json")
    found = []
    for path in sorted((LIBRARY / family).glob("*.json")):
        key = path.relative_to(LIBRARY).as_posix()
        instance, entry = moeopt.load(path), best[key]
        if not isinstance(instance, Instance) or instance.schema_version != 1:
            continue
        solution = moeopt.load_solution(LIBRARY / entry["solution"])
        proven = entry["status"] == "optimal"
        found.append(Stored(instance, solution, entry["objective"], proven))
    return tuple(found)


@cache
def _overloads(what: str, fair: bool) -> list[float]:
    """Return a row's load over the makespan, for each stored optimum with 16 DIMMs.

    Parameters
    ----------
    what
        One of `PAIRINGS`, or "base".
    fair
        Whether on layouts of an offline trace, or else on those decided on the last step.
    """
    found = []
    for family in sorted(path.name for path in LIBRARY.iterdir() if path.is_dir()):
        for of in stored(family) if family != "solutions" else ():
            options = (of.instance.provenance or {})["options"]
            is_fair = options["layout_from"] == "offline trace"
            if of.instance.dimms != 16 or not of.proven or is_fair != fair:
                continue
            if what == "base":
                exact = of.instance.model_copy(update={"quantum_ns": 1})  # nothing rounded up
                instance = in_schema_2(exact, gpu_base="shared experts")
                busy = loads(instance, of.solution).gpu_ns
            else:
                channels = [d // 2 if what == "channel" else d % 8 for d in range(16)]
                update = {"schema_version": 2, "channels": tuple(channels)}
                busy = max(loads(of.instance.model_copy(update=update), of.solution).channel_ns)
            found.append(busy / of.objective)
    return found


def _percent(ratios: Sequence[float]) -> str:
    return f"{100 * (max(ratios, default=1) - 1):.1f} %"


if __name__ == "__main__":
    main()
