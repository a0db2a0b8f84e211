"""A problem: what it says about itself, and callables for all that it has.

The one object of a problem, ``PROBLEM`` in its package, is of plain values and functions. A
function imports what it hands out when it is first called: reading the object imports no solver,
and solving a file imports no simulator.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from moeopt.core.objective import Objective, Packing
from moeopt.core.settlements import Settlement, split_name

if TYPE_CHECKING:
    from pydantic import BaseModel

    from moeopt.core.futures import Draw, Futures
    from moeopt.core.search import Search
    from moeopt.core.view import Changes, Difference, Lane

InstanceT = TypeVar("InstanceT")
SolutionT = TypeVar("SolutionT")
InstanceIn = TypeVar("InstanceIn", contravariant=True)
SolutionIn = TypeVar("SolutionIn", contravariant=True)
SolutionOut = TypeVar("SolutionOut", covariant=True)


class Checker(Protocol[InstanceIn, SolutionIn]):
    """A problem's ``check.py``: the judge, which shares nothing with any model."""

    @property
    def CONSTRAINTS(self) -> Mapping[str, str]:  # noqa: N802
        """Constraint ID -> the rule in a sentence."""

    @property
    def OBJECTIVE(self) -> tuple[str, ...]:  # noqa: N802
        """Names of the objective's entries, each with its unit."""

    def violations(
        self, instance: InstanceIn, solution: SolutionIn, claimed: Any = None, /
    ) -> list[tuple[str, str]]:
        """Return (constraint ID, sentence) for all that is wrong; empty for a valid solution.

        A claimed objective below what the solution costs is wrong, too.
        """

    def objective(self, instance: InstanceIn, solution: SolutionIn, /) -> Objective:
        """Return what a solution costs."""


class Bounds(Protocol[InstanceIn]):
    """A problem's ``bounds.py``."""

    def lower_bound(self, instance: InstanceIn, /) -> Objective:
        """Return what no solution can be below."""

    def objective_grid(self, instance: InstanceIn, /) -> int:
        """Return a number of which every objective, packed, is a multiple."""


class Rules(Protocol[InstanceIn, SolutionOut]):
    """A problem's ``heuristics.py``."""

    @property
    def HEURISTICS(self) -> Mapping[str, Callable[..., SolutionOut | None]]:  # noqa: N802
        """Name -> heuristic; keyword arguments are settlements."""

    @property
    def WARM_START(self) -> Callable[[InstanceIn], SolutionOut | None]:  # noqa: N802
        """The heuristic whose solution models start from."""


class Oracle(Protocol[InstanceIn, SolutionOut]):
    """A problem's ``oracle.py``: every candidate, for tiny instances."""

    @property
    def MAX_CANDIDATES(self) -> int:  # noqa: N802
        """More are not enumerated."""

    def count(self, instance: InstanceIn, /) -> int:
        """Return how many candidates there are."""

    def candidates(self, instance: InstanceIn, /) -> Iterator[SolutionOut]:
        """Yield them, valid or not."""


class View(Protocol[InstanceIn, SolutionIn]):
    """A problem's ``view.py``."""

    def facts(self, instance: InstanceIn, solution: SolutionIn, /) -> dict[str, str | int]:
        """Return what reports say about a solution."""

    def differences(
        self, instance: InstanceIn, ours: SolutionIn, best: SolutionIn, /
    ) -> "Iterator[Difference]":
        """Yield what two solutions decide differently."""

    def changes(self, instance: InstanceIn, solution: SolutionIn, /) -> "Changes":
        """Yield solutions in which one decision is another."""


class Decomposition(Protocol[InstanceT, SolutionT]):
    """A problem's ``decomposition.py``, where instances can fall into independent parts.

    The objective is then a sum over the parts, and no constraint names two of them.
    """

    def parts(self, instance: InstanceT, /) -> list[InstanceT]:
        """Return the parts; the instance alone where it falls into none."""

    def split(self, solution: SolutionT, parts: Sequence[InstanceT], /) -> list[SolutionT]:
        """Return what a solution decides in each part."""

    def joined(self, instance: InstanceT, solutions: Sequence[SolutionT], /) -> SolutionT:
        """Return the solution that the parts' solutions make together."""


class BuiltModel(Protocol):
    """A model of an instance, for CP-SAT or MILP; see `moeopt.core.formulation.Formulation`."""

    model: Any

    @property
    def parameters(self) -> Mapping[str, object]:
        """What CP-SAT is told beside the limits."""

    @property
    def objective_unit(self) -> int:
        """What one unit of the model's objective is, packed."""

    def post(self, without: Collection[str] = (), checkpoint: Callable[[], None] = ..., /) -> None:
        """Post every constraint but some."""

    def start_from(self, solution: Any, objective: Any, /) -> None:
        """Start from a solution, and allow none that is worse."""

    def decode(self, value: Callable[[Any], int], /) -> Any:
        """Return the solution of the variables' values."""


class Algorithm(Protocol[InstanceIn]):
    """A module with an exact algorithm, whose docstring has the proof: see `exact_methods`.

    It may have ``brief(instance)`` too, which says whether the algorithm uses no solver on an
    instance and comes back to Python every 50 ms, so that it needs no thread.
    """

    def solve(self, instance: InstanceIn, search: "Search", /) -> object:
        """Report incumbents and bounds to the search until it is closed or told to stop."""


@dataclass(frozen=True)
class ExactMethod(Generic[InstanceT]):
    """An exact algorithm of a problem, beside the models that every problem has.

    Attributes
    ----------
    algorithm
        Imports and returns the module with ``solve(instance, search)``.
    then
        An exact method of the problem that hands a model to a solver and goes on from the
        incumbent and the bound if the algorithm ends before its proof; None if there is none. Not
        after a `Search` that was `enough`.
    """

    algorithm: Callable[[], Algorithm[InstanceT]]
    then: str | None = None


@dataclass(frozen=True)
class Generator(Generic[InstanceT]):
    """How instances of a problem are made from a machine, a model and a trace.

    Attributes
    ----------
    options
        What it can be told, beside machine, model, trace and seed.
    generate
        (source, options) -> instance.
    resettled
        (instance, settlement, value) -> the same instance under another value of a settlement; None
        where it does not carry what that takes.
    trace_of
        (source, options) -> the trace that a workload draws for these options.
    quantum_ns
        What costs are rounded up to multiples of by default, if not the usual.
    from_counts
        Whether steps can be drawn from counts of tokens per expert.
    """

    options: "type[BaseModel]"
    generate: Callable[[Any, Any], InstanceT]
    resettled: Callable[[InstanceT, str, str], InstanceT | None] | None = None
    trace_of: Callable[[Any, Any], Any] | None = None
    quantum_ns: int | None = None
    from_counts: bool = False


@dataclass(frozen=True)
class Run:
    """A decision that was run on an instance.

    Attributes
    ----------
    objective
        What it cost.
    unproven
        Of how many loads the exact schedule is not proven the best; 0 for all other schedulers,
        which claim nothing.
    """

    objective: Objective
    unproven: int = 0

    @property
    def unproven_in_words(self) -> str:
        """A sentence about `unproven`."""
        return f"{self.unproven} of its exact schedules not proven the best within the effort"


@dataclass(frozen=True)
class Later(Generic[InstanceT, SolutionT]):
    """How decisions are run on loads that come later, where they do not stay just as they are.

    Attributes
    ----------
    run
        (instance, decision, schedule) -> `Run`; None if the decision
        becomes a solution of the instance by `unchanged`, and the checker says what it costs.
    adopted
        (instance, decision, schedule) -> solution.
    unchanged
        (instance, decision) -> solution, if more changes than the instance's name.
    windows_of
        Instance -> its windows as instances of their own.
    joined
        Instances -> one in which a decision costs what it does in all of them, or less.
    separated
        (instance, decision on a joined one) -> decision on it.
    is_scheduled
        Whether what a decision costs depends on who schedules it.
    """

    run: Callable[[InstanceT, SolutionT, Any], Run] | None = None
    adopted: Callable[[InstanceT, SolutionT, Any], SolutionT] | None = None
    unchanged: Callable[[InstanceT, SolutionT], SolutionT] | None = None
    windows_of: Callable[[InstanceT], list[InstanceT]] | None = None
    joined: Callable[[Sequence[InstanceT]], InstanceT] | None = None
    separated: Callable[[InstanceT, SolutionT], SolutionT] | None = None
    is_scheduled: bool = False


@dataclass(frozen=True)
class Robust(Generic[InstanceT]):
    """Decisions for later loads than those of the instance; see `moeopt.core.futures`.

    Attributes
    ----------
    draw
        (instance, futures, seed) -> what futures are drawn by.
    decide
        Reports its decision to the search.
    """

    draw: "Callable[[InstanceT, Futures, int], Draw]"
    decide: "Callable[[InstanceT, Draw, Search, Futures], None]"


@dataclass(frozen=True)
class Parts(Generic[InstanceT, SolutionT]):
    """What of a problem every solve needs: imported together, without solvers or simulator.

    Attributes
    ----------
    instance, solution
        The classes.
    lanes
        (instance, solution) -> the schedule, to draw; None if solutions are no schedules.
    lanes_are_sums
        Whether its bars are sums over many steps.
    knew
        (instance, heuristic) -> by which information about loads it decided, where that depends on
        the instance; None where `Problem.knows` says it.
    precision
        (instance, solution) -> a sentence about how exact the objective is, or None.
    second_key_radix
        Instance -> a number above every second entry of the objective, if it has two.
    """

    instance: type[InstanceT]
    solution: type[SolutionT]
    check: Checker[InstanceT, SolutionT]
    bounds: Bounds[InstanceT]
    heuristics: Rules[InstanceT, SolutionT]
    oracle: Oracle[InstanceT, SolutionT]
    view: View[InstanceT, SolutionT]
    settlements: tuple[Settlement, ...] = ()
    decomposition: Decomposition[InstanceT, SolutionT] | None = None
    lanes: "Callable[[InstanceT, SolutionT], list[Lane]] | None" = None
    lanes_are_sums: bool = False
    knew: Callable[[InstanceT, str], str | None] | None = None
    precision: Callable[[InstanceT, SolutionT], str | None] | None = None
    second_key_radix: Callable[[InstanceT], int] | None = None


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

Front = Callable[[InstanceT, Callable[[], bool]], Sequence[Any] | None]
"""(instance, stopped) -> every undominated point; None if told to stop before."""

OPTIONAL_PARTS = ("restrictions", "holdout", "robust", "lanes", "executor")
"""What a problem may lack, if `Problem.absent` says why."""


@dataclass(frozen=True, eq=False)
class Problem(Generic[InstanceT, SolutionT]):
    """One problem.

    Attributes
    ----------
    name
        Of its folder, and in its files.
    about
        What is decided, in a line: its package's docstring.
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
        were made on.
    exact_methods
        Method name -> the problem's own exact algorithms, the best one first.
    absent
        Why something is None: "restrictions", "holdout", "robust", "lanes" or "executor".
    labels
        Method name -> what a table has to say beside it, in a few words, so that nobody takes its
        figure for more than it is, e.g. "on the given layout".
    knows
        Heuristic -> the information about loads that it decides by, in a few words: `NOTHING`,
        `THIS_STEP`, `HINDSIGHT` or words of the problem's own. Every heuristic has an entry. Where
        it depends on the instance, `Parts.knew` says it and the entry is what holds elsewhere; ask
        `knew`.
    coincide
        Heuristic -> another one that decides the same by construction, on some instances at least;
        the specification has the proof. Tables merge the two where all their solves agree.
    sample_rule
        Where there is a hold-out: the simple heuristic that decides by the loads of the instance,
        or does nothing. What another method's decision brings on later loads is a share of what
        hindsight would have brought over this one's.
    needs
        Heuristic -> the optional field of an instance without which it is no more than another
        rule; it is not among those run by default there.
    unpriced
        Constraint ID -> why it has no price: left out it would not be relaxed but leave no problem,
        as "each expert runs somewhere".
    parts
        Imports and returns what every solve needs; its entries are properties here.
    cpsat
        Imports and returns the class of the CP-SAT model.
    milp_rows
        Imports and returns the class of CP-SAT models whose rows the MILP has, if not `cpsat`'s.
    generator, executor, later, robust
        Import and return the `Generator`; (instance, solution) -> what the event engine executed;
        how decisions are run on later loads, None if they stay just as they are; method `ROBUST`.
    front
        Imports and returns (instance, stopped) -> the Pareto front's points, where there is one.
    """

    name: str
    about: str
    title: str
    paper: str
    published_rule: str
    restrictions: Mapping[str, object] | None
    holdout: Stretch | Phases | None
    exact_methods: Mapping[str, ExactMethod[InstanceT]]
    parts: Callable[[], Parts[InstanceT, SolutionT]]
    cpsat: Callable[[], Callable[[InstanceT], BuiltModel]]
    generator: Callable[[], Generator[InstanceT]]
    milp_rows: Callable[[], Callable[[InstanceT], BuiltModel]] | None = None
    executor: Callable[[], Callable[[InstanceT, SolutionT], Any]] | None = None
    later: Callable[[], Later[InstanceT, SolutionT]] | None = None
    robust: Callable[[], Robust[InstanceT]] | None = None
    front: Callable[[], Front[InstanceT]] | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    knows: Mapping[str, str] = field(default_factory=dict)
    coincide: Mapping[str, str] = field(default_factory=dict)
    sample_rule: str | None = None
    needs: Mapping[str, str] = field(default_factory=dict)
    unpriced: Mapping[str, str] = field(default_factory=dict)

    def milp(self) -> Callable[[InstanceT], BuiltModel]:
        """Return the class of the MILP model."""
        from moeopt.core.linear import in_floats

        return in_floats((self.milp_rows or self.cpsat)())

    @cached_property
    def _parts(self) -> Parts[InstanceT, SolutionT]:
        return self.parts()

    @property
    def instance(self) -> type[InstanceT]:
        """The class of instances."""
        return self._parts.instance

    @property
    def solution(self) -> type[SolutionT]:
        """The class of solutions."""
        return self._parts.solution

    @property
    def check(self) -> Checker[InstanceT, SolutionT]:
        """The checker."""
        return self._parts.check

    @property
    def bounds(self) -> Bounds[InstanceT]:
        """Lower bounds."""
        return self._parts.bounds

    @property
    def heuristics(self) -> Rules[InstanceT, SolutionT]:
        """The rules, published and plain."""
        return self._parts.heuristics

    @property
    def oracle(self) -> Oracle[InstanceT, SolutionT]:
        """Every candidate."""
        return self._parts.oracle

    @property
    def view(self) -> View[InstanceT, SolutionT]:
        """What reports say."""
        return self._parts.view

    @property
    def settlements(self) -> tuple[Settlement, ...]:
        """What its papers leave open, and how it is read."""
        return self._parts.settlements

    @property
    def decomposition(self) -> Decomposition[InstanceT, SolutionT] | None:
        """How instances fall into parts, if they can."""
        return self._parts.decomposition

    @property
    def lanes(self) -> "Callable[[InstanceT, SolutionT], list[Lane]] | None":
        """Schedules to draw, if solutions are schedules."""
        return self._parts.lanes

    @property
    def lanes_are_sums(self) -> bool:
        """Whether bars of such a schedule are sums over many steps."""
        return self._parts.lanes_are_sums

    @property
    def constraint_ids(self) -> tuple[str, ...]:
        """The IDs that the checker knows."""
        return tuple(self.check.CONSTRAINTS)

    def knew(self, method: str, instance: InstanceT) -> str | None:
        """Return which information about loads a heuristic decided by on an instance, in words.

        Parameters
        ----------
        method
            The heuristic's name; settlements in brackets change nothing.

        Returns
        -------
        str or None
            None for methods that are none of the problem's heuristics: exact ones decide by
            everything in the instance, users' rules by what they like.
        """
        plain, _ = split_name(method)
        if plain == ROBUST and self.robust is not None:
            return FORECAST
        usual = self.knows.get(plain)
        depends = self._parts.knew
        said = None if usual is None or depends is None else depends(instance, plain)
        return usual if said is None else said

    def packing(self, instance: InstanceT) -> Packing:
        """Return how an objective of this instance becomes one integer for a solver."""
        radix = self._parts.second_key_radix
        return Packing(radix(instance) if radix else None)

    def precision(self, instance: InstanceT, solution: SolutionT) -> str | None:
        """Return a sentence about how exact a solution's objective is, if there is one."""
        say = self._parts.precision
        return say(instance, solution) if say else None
