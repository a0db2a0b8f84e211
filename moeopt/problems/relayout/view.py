"""A solution as a schedule to look at, and the facts about it that reports ask for."""

from collections import Counter
from collections.abc import Iterator

from moeopt.core.problem import HINDSIGHT
from moeopt.core.view import Changes, Difference, Lane, different_domains, expert_words, replaced
from moeopt.problems.tri_domain import view as tri_domain

from .check import fitting_migrations, link_busy_ns
from .fixed_layout import after_migrations, schedule_of
from .instance import DOMAINS, KINDS, Instance, Migration, Solution


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane per device, GPU, CPU, DIMMs, as they are busy after the migrations.

    The migrations themselves are over when the layer starts, so they are not drawn.
    """
    layer = after_migrations(instance, solution.migrations)
    return tri_domain.lanes(layer, schedule_of(instance, solution))


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return the bottleneck, how many migrations of each kind, and the busiest link's time."""
    layer = after_migrations(instance, solution.migrations)
    found = dict(tri_domain.facts(layer, schedule_of(instance, solution)))
    kinds = Counter(migration.kind for migration in solution.migrations)
    found |= {kind: kinds[kind] for kind in KINDS}
    found["dimm_link_ns"] = max(link_busy_ns(instance, solution))
    return found


def information(instance: Instance, method: str) -> str | None:
    """Return that a rule had the loads themselves where the instance says they are the real ones.

    The generator writes which ones they are; predicted ones, or where nothing is said: None.
    """
    options = (instance.provenance or {}).get("options")
    actual = isinstance(options, dict) and options.get("loads") == "actual"
    return HINDSIGHT if actual and method != "none" else None


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield migrations and domains that differ, by the tokens of their expert."""
    moves = [{m.expert: m for m in solution.migrations} for solution in (ours, best)]
    for expert in instance.experts:
        a, b = (_move(of.get(expert.expert)) for of in moves)
        if a != b:
            what = f"migration of {expert_words(expert.expert, expert.tokens)}"
            yield expert.tokens, what, a, b
    yield from different_domains(instance.experts, ours.assignment, best.assignment)


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield every other pair of migration and domain of each expert with tokens."""
    for row, (expert, domain) in enumerate(zip(instance.experts, solution.assignment, strict=True)):
        if domain is None:
            continue
        others = tuple(m for m in solution.migrations if m.expert != expert.expert)
        now = next((m for m in solution.migrations if m.expert == expert.expert), None)
        what = expert_words(expert.expert, expert.tokens)
        for migration in fitting_migrations(instance, expert):
            for other in DOMAINS:
                if (migration, other) == (now, domain):
                    continue
                words = f"{what} from {domain} to {other}" if other != domain else what
                if migration != now:
                    words += f", migration: {_move(migration)} and not {_move(now)}"
                moved = others if migration is None else (*others, migration)
                assignment = replaced(solution.assignment, row, other)
                update = {"migrations": moved, "assignment": assignment}
                yield words, solution.model_copy(update=update)


def _move(migration: Migration | None) -> str:
    if migration is None:
        return "none"
    return f"{migration.kind}" + ("" if migration.dimm is None else f" to DIMM {migration.dimm}")
