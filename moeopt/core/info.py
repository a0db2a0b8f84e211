"""What a problem says about itself, in the ``INFO`` of its package.

Reports, the held-out runs, the contract test and the list of methods read it, so that nothing about
a problem stands anywhere else. It is made of plain values: reading it imports no solver.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class ExactMethod:
    """An exact algorithm of a problem, beside the models that every problem has.

    Attributes
    ----------
    module
        The problem's module with ``solve(instance, search)``, imported when first run.
    then
        An exact method of the problem that hands a model to a solver and goes on from the
        incumbent and the bound if the algorithm ends before its proof; None if there is none. Not
        after a `Search` that was `enough`.
    """

    module: str
    then: str | None = None


@dataclass(frozen=True)
class ExactModel:
    """Another model of a problem, beside those that every problem has.

    Attributes
    ----------
    module
        The problem's module with ``Model``, of the form of ``cpsat.py`` or ``milp.py``.
    solver
        "cp-sat" or "milp": which of the two forms.
    """

    module: str
    solver: Literal["cp-sat", "milp"]


@dataclass(frozen=True)
class Stretch:
    """Loads are a stretch of a trace: two options of the generator say which.

    Attributes
    ----------
    first, length
        Names of the options: where the loads begin, and how many steps, tokens or windows they are.
    spacing
        Name of the option that says how far it is from one to the next, if there is one; else 1.
    unseen
        Name of the option that says how many of the loads that follow, which are held out, the
        instance's forecast must not see, if there is one.
    """

    first: str
    length: str
    spacing: str | None = None
    unseen: str | None = None

    @property
    def options(self) -> frozenset[str]:
        """The names of all of them."""
        named = (self.first, self.length, self.spacing, self.unseen)
        return frozenset(name for name in named if name is not None)


@dataclass(frozen=True)
class Phases:
    """Loads are of one phase: one option of the generator says which.

    Attributes
    ----------
    option
        Its name.
    order
        Its values in the order of time, e.g. predicted loads before the actual ones.
    """

    option: str
    order: tuple[str, ...]

    @property
    def options(self) -> frozenset[str]:
        """The names of the options that say which loads they are."""
        return frozenset({self.option})


NOTHING = "nothing"
"""What a rule knew that decides by numbers, sizes and times alone, whatever the loads are."""

THIS_STEP = "this step's loads"
"""What a rule knew that runs after the router, for the step that it is measured on."""

HINDSIGHT = "the measured loads (hindsight)"
"""What a rule knew that decides on the loads it is measured on, before they are there."""

ROBUST = "robust"
"""The method of every problem that can be decided for loads that come later."""

FORECAST = "a forecast from these loads"
"""What it knows on the loads that it is measured on if they came later."""

HELD_OUT = "held out"
"""What provenance calls the part of a trace that nothing is decided on."""

OPTIONAL_PARTS = ("restrictions", "holdout", "robust", "lanes", "executor")
"""What a problem may lack, if `ProblemInfo.absent` says why."""


@dataclass(frozen=True)
class ProblemInfo:
    """What is to be known of a problem before any of its modules is imported.

    Attributes
    ----------
    title
        What is decided, as a report's heading.
    paper
        The published system whose decision it is; the specification cites it in full.
    published_rule
        The heuristic that decides as that system does.
    restrictions
        Field of the instance -> the value that restricts nothing. A report prices a restriction by
        comparing instances that differ in one of these fields only.
    holdout
        How the generator says which loads come later, for decisions that outlast the loads they
        were made on. They are executed by ``moeopt/problems/<problem>.py``, or just as they are
        where there is no such module.
    exact_methods
        Method name -> the problem's own exact algorithms and models, the best one first.
    absent
        Why something is None or missing: "restrictions", "holdout", "robust", "lanes" (in
        ``view.py``) or "executor" (``moeopt/problems/<problem>.py``).
    labels
        Method name -> what a table has to say beside it, in a few words, so that nobody takes its
        figure for more than it is, e.g. "on the given layout".
    knows
        Heuristic -> the information about loads that it decides by, in a few words: `NOTHING`,
        `THIS_STEP`, `HINDSIGHT` or words of the problem's own. Every heuristic has an entry. Where
        it depends on the instance, the problem's ``view.knew(instance, method)`` says it and the
        entry is what holds elsewhere; ask `moeopt.problems.registry.Problem.knew`.
    coincide
        Heuristic -> another one that decides the same by construction, on some instances at least;
        the specification has the proof. Tables merge the two where all their solves agree.
    sample_rule
        Where there is a hold-out: the simple heuristic that decides by the loads of the instance,
        or does nothing. What another method's decision brings on later loads is a share of what
        hindsight would have brought over this one's.
    robust
        Whether the problem has a module ``robust``, which decides for later loads than those of the
        instance: method `ROBUST`. See `moeopt.core.futures`.
    needs
        Heuristic -> the optional field of an instance without which it is no more than another
        rule; it is not among those run by default there.
    unpriced
        Constraint ID -> why it has no price: left out it would not be relaxed but leave no problem,
        as "each expert runs somewhere".
    """

    title: str
    paper: str
    published_rule: str
    restrictions: Mapping[str, Any] | None
    holdout: Stretch | Phases | None
    exact_methods: Mapping[str, ExactMethod | ExactModel]
    absent: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    knows: Mapping[str, str] = field(default_factory=dict)
    coincide: Mapping[str, str] = field(default_factory=dict)
    sample_rule: str | None = None
    robust: bool = False
    needs: Mapping[str, str] = field(default_factory=dict)
    unpriced: Mapping[str, str] = field(default_factory=dict)
