"""Base class of a problem: plain data about it, and methods that import what they need.

A problem's package has one subclass and one object of it, ``PROBLEM``. Reading the object imports
neither numpy nor a solver, and solving a file imports no simulator: modules are imported by the
methods that use them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from moeopt.core.assumptions import Assumption, split_name
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective, Packing

if TYPE_CHECKING:
    from pydantic import BaseModel

    from moeopt.core.formulation import Formulation
    from moeopt.core.view import Changes, Difference, Lane

InstanceT = TypeVar("InstanceT")
SolutionT = TypeVar("SolutionT")

Information = Literal["none", "past loads", "current loads", "oracle"]
"""Which loads a heuristic decides by: none, earlier ones, those that the router has just given, or
those that it is measured on, before they are there."""

NOTHING = "nothing"
"""Information in words: numbers, sizes and times alone, whatever the loads are."""

THIS_STEP = "current loads"
"""Information in words: the loads of the step that is measured, after the router has run."""

HINDSIGHT = "the measured loads (hindsight)"
"""Information in words: the loads that are measured, before they are there."""

IN_WORDS: Mapping[Information, str] = {
    "none": NOTHING,
    "past loads": "past loads",
    "current loads": THIS_STEP,
    "oracle": HINDSIGHT,
}
"""Information -> what tables print where a heuristic has no note of its own."""

HELD_OUT = "held out"
"""Name in provenance of the part of a trace that nothing is decided on."""

EXACT = "exact"
"""Scheduler that gives every layer the best schedule there is."""

Schedule = str | Callable[[Any], Any]
"""One of a problem's `schedulers`, or a function from a layer's instance to its solution."""

Engine = Literal["cp-sat", "milp"]
"""Kind of solver that a model is for."""


class Heuristic(NamedTuple):
    """Heuristic of a problem: where it is written, and what it may know.

    Attributes
    ----------
    name
        Name of the method.
    where
        Module and function, relative to the problem's package: ``".heuristics:greedy"``. Keyword
        arguments of the function are assumptions.
    information
        Loads that it decides by.
    note
        The same in more detail, as tables print it; empty where the information says all.
    needs
        Optional field of an instance without which the heuristic is no more than another one. It
        is not among those that run by default on an instance without that field.
    coincides_with
        Heuristic that decides the same by construction, on some instances at least; the
        specification has the proof. Tables merge the two where all their solves agree.
    label
        Words that stand beside the name in tables, so that its figures are not taken for more than
        they are, e.g. "on the given layout".
    knows_only
        Field of an instance, and the one value of it that the heuristic has solutions for.
    """

    name: str
    where: str
    information: Information
    note: str = ""
    needs: str | None = None
    coincides_with: str | None = None
    label: str = ""
    knows_only: tuple[str, object] | None = None

    @property
    def in_words(self) -> str:
        """Information as tables print it."""
        return self.note or IN_WORDS[self.information]


class ExactMethod(NamedTuple):
    """Exact algorithm of a problem, beside the models that every problem has.

    Attributes
    ----------
    name
        Name of the method.
    where
        Module with ``solve(instance, search)``, relative to the problem's package. Its docstring
        has the proof. It may have ``brief(instance)``, which tells whether the algorithm ends so
        soon on an instance, without a solver, that no starting solution is worth making.
    then
        Method that hands a model to a solver and goes on from the incumbent and the bound if the
        algorithm ends before its proof; None if there is none. It does not follow a search that was
        `enough`.
    """

    name: str
    where: str
    then: str | None = None


class Violation(NamedTuple):
    """Broken constraint: its ID, and a sentence with the numbers."""

    constraint: str
    sentence: str


@dataclass(frozen=True)
class Run:
    """Cost of a decision on an instance.

    Attributes
    ----------
    objective
        The cost.
    unproven
        Number of loads whose exact schedule is not proven to be the best; 0 for all other
        schedulers, which claim nothing.
    """

    objective: Objective
    unproven: int = 0

    @property
    def unproven_in_words(self) -> str:
        """A sentence about `unproven`."""
        return f"{self.unproven} of its exact schedules not proven the best within the effort"


@dataclass(frozen=True)
class Stretch:
    """Loads that are a stretch of a trace, as two options of the generator say.

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
    """Loads of one phase, as one option of the generator says.

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


_imported = cache(import_module)
"""Brute force asks for the module of a checker hundreds of thousands of times."""


class Problem(Generic[InstanceT, SolutionT]):
    """Base class of a problem.

    A method without a body of its own calls the function of the same name in one of the problem's
    modules; `MODULES` names them. A subclass may override any method.

    Attributes
    ----------
    name
        Name of its folder, and in its files.
    title
        What is decided, as a report's heading.
    paper
        The published system whose decision it is; the specification cites it in full.
    published
        The heuristic that decides as that system does.
    heuristics
        The published heuristics and plain ones.
    exact
        The problem's own exact algorithms, the best one first.
    restrictions
        Field of the instance -> the value that restricts nothing. A report prices a restriction by
        comparing instances that differ in one of these fields only.
    holdout
        How the generator says which loads come later, for decisions that outlast the loads they
        were made on.
    sample_rule
        Where there is a hold-out: the simple heuristic that decides by the loads of the instance,
        or does nothing. The gain of another method's decision on later loads is a share of what
        hindsight would have gained over this one's.
    schedulers
        Names of those who can schedule a decision, the exact one first; empty if the cost of a
        decision does not depend on that.
    absent
        Reason why the problem lacks one of `OPTIONAL`.
    unpriced
        Constraint ID -> why it has no price: without it the instance would not be relaxed, but
        nothing would be left to decide, as for "each expert runs somewhere".
    lanes_are_sums
        Whether the bars of `lanes` are sums over many steps.
    from_counts
        Whether instances can be generated from counts of tokens per expert.
    from_routing
        Whether a trace or a workload says anything of an instance.
    machine_parts
        Parts of a machine without which no instance can be made: gpu, cpu, ndp. Of a problem that
        names none, the machine may be absent.
    rounds_times
        Whether instances have times that are rounded up to multiples of a quantum.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    published: ClassVar[str]
    heuristics: ClassVar[tuple[Heuristic, ...]]
    exact: ClassVar[tuple[ExactMethod, ...]]
    restrictions: ClassVar[Mapping[str, object]] = {}
    holdout: ClassVar[Stretch | Phases | None] = None
    sample_rule: ClassVar[str | None] = None
    schedulers: ClassVar[tuple[str, ...]] = ()
    absent: ClassVar[Mapping[str, str]] = {}
    unpriced: ClassVar[Mapping[str, str]] = {}
    lanes_are_sums: ClassVar[bool] = False
    from_counts: ClassVar[bool] = False
    from_routing: ClassVar[bool] = True
    machine_parts: ClassVar[tuple[Literal["gpu", "cpu", "ndp"], ...]] = ()
    rounds_times: ClassVar[bool] = True

    OPTIONAL: ClassVar = ("restrictions", "holdout", "lanes", "execute")
    """Parts that a problem may lack, if `absent` says why."""

    MODULES: ClassVar[Mapping[str, str]] = {
        "instance": ".instance",
        "check": ".check",
        "bounds": ".bounds",
        "heuristics": ".heuristics",
        "assumptions": ".assumptions",
        "model": ".cpsat",
        "view": ".view",
        "generate": ".generate",
        "execute": ".execute",
        "later": ".later",
    }
    """Part of a problem -> its module, relative to the problem's package."""

    @property
    def about(self) -> str:
        """What is decided, in a line: the docstring of the problem's package."""
        return import_module(type(self).__module__).__doc__ or ""

    def has(self, part: str) -> bool:
        """Tell whether the problem has a part that others lack: see `OPTIONAL`."""
        return part not in self.absent

    def module(self, part: str) -> Any:
        """Import and return one of `MODULES`."""
        return _imported(self.MODULES[part], type(self).__module__)

    def _in_later(self, function: str) -> Any:
        """Return a function that ``later.py`` may have; None without it."""
        return getattr(self.module("later"), function, None) if self.holdout is not None else None

    def Instance(self) -> type[InstanceT]:  # noqa: N802
        """Return the class of instances."""
        found: type[InstanceT] = self.module("instance").Instance
        return found

    def Solution(self) -> type[SolutionT]:  # noqa: N802
        """Return the class of solutions."""
        found: type[SolutionT] = self.module("instance").Solution
        return found

    # The judge, which shares nothing with any model.

    def constraints(self) -> Mapping[str, str]:
        """Return constraint ID -> the rule in a sentence."""
        found: Mapping[str, str] = self.module("check").CONSTRAINTS
        return found

    def minimises(self) -> tuple[str, ...]:
        """Return the names of the objective's entries, each with its unit."""
        found: tuple[str, ...] = self.module("check").OBJECTIVE
        return found

    def violations(
        self, instance: InstanceT, solution: SolutionT, claimed: Any = None
    ) -> list[Violation]:
        """Return all that is wrong with a solution; empty for a valid one.

        A claimed objective below what the solution costs is wrong, too.
        """
        found = self.module("check").violations(instance, solution, claimed)
        return [Violation(*one) for one in found]

    def objective(self, instance: InstanceT, solution: SolutionT) -> Objective:
        """Return the cost of a solution."""
        cost: Objective = self.module("check").objective(instance, solution)
        return cost

    def max_candidates(self) -> int:
        """Return up to how many candidates are enumerated."""
        most: int = self.module("check").MAX_CANDIDATES
        return most

    def count(self, instance: InstanceT) -> int:
        """Return the number of candidates."""
        number: int = self.module("check").count(instance)
        return number

    def candidates(self, instance: InstanceT) -> Iterator[SolutionT]:
        """Yield every candidate of a tiny instance, valid or not."""
        yield from self.module("check").candidates(instance)

    # Bounds and methods.

    def bound(self, instance: InstanceT) -> Objective:
        """Return a lower bound of the objective, proven without a solver."""
        bound: Objective = self.module("bounds").lower_bound(instance)
        return bound

    def grid(self, instance: InstanceT) -> int:
        """Return a number of which every objective, packed, is a multiple."""
        grid: int = self.module("bounds").objective_grid(instance)
        return grid

    def packing(self, instance: InstanceT) -> Packing:
        """Return how an objective of this instance becomes one integer for a solver."""
        radix = getattr(self.module("bounds"), "second_key_radix", None)
        return Packing(None if radix is None else radix(instance))

    def known_heuristic(self, name: str) -> Heuristic | None:
        """Return the heuristic called `name`; None if there is none."""
        return next((one for one in self.heuristics if one.name == name), None)

    def functions(self) -> dict[str, Callable[..., SolutionT | None]]:
        """Return the heuristics' functions by name."""
        return {one.name: self.function(one) for one in self.heuristics}

    def function(self, heuristic: Heuristic) -> Callable[..., SolutionT | None]:
        """Import and return a heuristic's function."""
        module, _, function = heuristic.where.partition(":")
        found = getattr(import_module(module, type(self).__module__), function)
        rule: Callable[..., SolutionT | None] = found
        return rule

    def start(self, instance: InstanceT) -> SolutionT | None:
        """Return the solution that models start from, by ``WARM_START`` of ``heuristics.py``."""
        found: SolutionT | None = self.module("heuristics").WARM_START(instance)
        return found

    def algorithm(self, method: ExactMethod) -> Any:
        """Import and return the module of an exact method."""
        return import_module(method.where, type(self).__module__)

    def Model(self, engine: Engine) -> "type[Formulation]":  # noqa: N802
        """Return the class of the model for CP-SAT or, with the same rows, for MILP solvers."""
        found: type[Formulation] = self.module("model").Model
        if engine == "cp-sat":
            return found
        from moeopt.core.linear import in_floats

        return in_floats(found)

    def model(self, instance: InstanceT, engine: Engine) -> "Formulation":
        """Return the model of an instance; its method `post` posts the constraints."""
        build: Any = self.Model(engine)
        built: Formulation = build(instance)
        return built

    def front(self, instance: InstanceT, stopped: Callable[[], bool]) -> Sequence[Any] | None:
        """Return every undominated point, or None if told to stop before.

        Raises
        ------
        InputError
            If the objective has one entry only.
        """
        raise InputError(f"{self.name} has no Pareto front: one objective decides")

    def compile_others(self) -> None:
        """Compile the kernels that no method of the problem calls."""

    # Instances.

    def Options(self) -> "type[BaseModel]":  # noqa: N802
        """Return the class of the generator's options, beside machine, model, trace and seed."""
        found: type[BaseModel] = self.module("generate").Options
        return found

    def generate(self, source: Any, options: Any) -> InstanceT:
        """Return the instance of a source under the options."""
        made: InstanceT = self.module("generate").generate(source, options)
        return made

    def trace_of(self, source: Any, options: Any) -> Any:
        """Return the trace that a workload draws under these options.

        None if ``generate.py`` does not say, because the trace does not depend on them.
        """
        own = getattr(self.module("generate"), "trace_of", None)
        return None if own is None else own(source, options)

    def quantum_ns(self) -> int | None:
        """Return the multiple that costs are rounded up to by default; None for the usual one."""
        own: int | None = getattr(self.module("generate"), "QUANTUM_NS", None)
        return own

    def assumptions(self) -> tuple[Assumption, ...]:
        """Return the questions that the papers leave open, with the ways to read them."""
        found: tuple[Assumption, ...] = self.module("assumptions").ASSUMPTIONS
        return found

    def assume(self, instance: InstanceT, name: str, value: str) -> InstanceT | None:
        """Return the same instance under another value of an assumption.

        None if the instance does not carry what that takes, or ``generate.py`` has no ``assume``.
        """
        own = getattr(self.module("generate"), "assume", None)
        made: InstanceT | None = None if own is None else own(instance, name, value)
        return made

    # Later loads than those that a decision was made on. By default the decision stays as it is.

    def reruns(self) -> bool:
        """Tell whether ``later.py`` says what a decision costs later: a part is decided anew."""
        return self._in_later("run") is not None

    def later(self, instance: InstanceT, decision: SolutionT, schedule: Schedule) -> Run:
        """Return what a decision that was made on other loads costs on an instance."""
        own = self._in_later("run")
        if own is None:
            return Run(self.objective(instance, self.unchanged(instance, decision)))
        run: Run = own(instance, decision, schedule)
        return run

    def unchanged(self, instance: InstanceT, decision: SolutionT) -> SolutionT:
        """Return a decision that stays as it is as a solution of an instance.

        Raises
        ------
        InputError
            If it breaks a rule of the instance.
        """
        own = self._in_later("unchanged")
        if own is None:
            copied: Any = decision
            named: Any = instance
            moved: SolutionT = copied.model_copy(update={"instance": named.name})
        else:
            moved = own(instance, decision)
        if wrong := self.violations(instance, moved):
            raise InputError(f"{wrong[0].constraint}: {wrong[0].sentence}")
        return moved

    def windows_of(self, instance: InstanceT) -> list[InstanceT]:
        """Return the windows whose optima are of interest one by one, or just the instance."""
        own = self._in_later("windows_of")
        found: list[InstanceT] = [instance] if own is None else own(instance)
        return found

    def joined(self, instances: Sequence[InstanceT]) -> InstanceT:
        """Return an instance in which a decision costs what it does in all of some, or less.

        Raises
        ------
        InputError
            If there is no such instance.
        """
        own = self._in_later("joined")
        if own is None:
            raise InputError(
                "one later instance at most: several cannot be joined to one", where=self.name
            )
        try:
            whole: InstanceT = own(instances)
        except InputError as error:
            raise InputError(
                f"later instances cannot be joined: {error}", where=self.name
            ) from None
        return whole

    def separated(self, instance: InstanceT, decision: SolutionT) -> SolutionT:
        """Return a decision on a joined instance as one on an instance among them."""
        own = self._in_later("separated")
        found: SolutionT = decision if own is None else own(instance, decision)
        return found

    # Views.

    def execute(self, instance: InstanceT, solution: SolutionT) -> Any:
        """Return the run of a valid solution in the event engine (`moeopt.sim.engine.core`)."""
        return self.module("execute").execute(instance, solution)

    def facts(self, instance: InstanceT, solution: SolutionT) -> Mapping[str, str | int]:
        """Return the facts that reports state about a solution."""
        found: Mapping[str, str | int] = self.module("view").facts(instance, solution)
        return found

    def differences(
        self, instance: InstanceT, ours: SolutionT, best: SolutionT
    ) -> "Iterator[Difference]":
        """Yield the decisions that differ between two solutions."""
        yield from self.module("view").differences(instance, ours, best)

    def changes(self, instance: InstanceT, solution: SolutionT) -> "Changes":
        """Yield solutions in which one decision is another."""
        yield from self.module("view").changes(instance, solution)

    def lanes(self, instance: InstanceT, solution: SolutionT) -> "Sequence[Lane]":
        """Return the schedule of a solution, to draw."""
        found: Sequence[Lane] = self.module("view").lanes(instance, solution)
        return found

    def precision(self, instance: InstanceT, solution: SolutionT) -> str | None:
        """Return a sentence about how exact a solution's objective is, if there is one."""
        del instance, solution
        return None

    def information(self, method: str, instance: InstanceT) -> str | None:
        """Return the information about loads that a heuristic decided by on an instance, in words.

        Parameters
        ----------
        method
            The heuristic's name; assumptions in brackets change nothing.

        Returns
        -------
        str or None
            None for methods that are none of the problem's heuristics: exact ones decide by
            everything in the instance, and custom heuristics do not say.
        """
        plain, _ = split_name(method)
        heuristic = self.known_heuristic(plain)
        if heuristic is None:
            return None
        own = getattr(self.module("view"), "information", None)
        said: str | None = None if own is None else own(instance, plain)
        return heuristic.in_words if said is None else said
