"""What every generator starts from: machine, model, trace or workload, seed and quantum.

An instance is made again under another assumption from what it says of its making. A provenance is
free form and may come from a stranger: whatever is missing or odd in it means that the instance
cannot be made again, never an error.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from moeopt.core.envelope import Frozen, InstanceEnvelope, validated
from moeopt.core.errors import InputError
from moeopt.sim.costs.overheads import Overheads
from moeopt.sim.costs.quanta import DEFAULT_QUANTUM_NS
from moeopt.sim.costs.step import StepCosts, step_costs

from .machines.machine import Machine
from .models.model_shape import ModelShape
from .plan import Ids
from .presets import get_machine, get_model, names
from .presets.parts import compose
from .traces.synthetic import routing_trace, synthetic_trace
from .traces.trace import Counts, Trace
from .traces.workload import Workload


def one_of_two(trace: object, workload: object, *, flags: bool = False) -> None:
    """Raise InputError unless either a trace or a workload is given, by their names or flags."""
    if (trace is None) != (workload is None):
        return
    names = "--trace, --workload" if flags else "trace, workload"
    if trace is not None:
        raise InputError(f"{names}: cannot be combined; give one of the two")
    raise InputError(
        f"{names}: one of the two is missing: a file of routing, or a workload such as "
        "trimoe-skew (moeopt list workloads)"
    )


@dataclass(frozen=True)
class Source:
    """The common input of all generators; exactly one of `trace`, `counts`, `workload` is given.

    `counts` are in one step and the model's; only generators that are `from_counts` take them.
    `notes` is added to the provenance as it is: licence, origin, paper. `names_machine` is False
    where none was given, as the problem needs none; the provenance then has null in its place.
    `overheads` are those of a runtime, in place of what the machine's file says.
    """

    machine: Machine
    model: ModelShape
    trace: Trace | None = None
    workload: Workload | None = None
    counts: Counts | None = None
    seed: int = 0
    quantum_ns: int = DEFAULT_QUANTUM_NS
    name: str | None = None
    notes: dict[str, object] | None = None
    names_machine: bool = True
    overheads: Overheads | None = None

    @property
    def costs(self) -> StepCosts:
        """What the model's parts take on the machine, by its file or by `overheads`."""
        return step_costs(self.machine, self.model, self.overheads)

    def paced(self, ndp_rate: float) -> "Source":
        """Return the same with NDP units so many times as fast; memory stays as it is."""
        return replace(self, machine=self.machine.with_ndp_rate(ndp_rate))

    def trace_of(self, batch: int, batches: int = 2) -> Trace:
        """Return the real trace, or synthetic batches: by default one to decide on, one to execute.

        Parameters
        ----------
        batch, batches
            Tokens of a synthetic batch, and how many are drawn; a real trace is what it is.
        """
        model = self.model
        if self.workload is not None and self.trace is None:
            return synthetic_trace(self.workload, model, batch, batches, self.seed)
        one_of_two(self.trace, self.workload)
        assert self.trace is not None  # noqa: S101
        with_experts = model.layers - model.dense_layers
        self.trace.check_fits(model.routed_experts, model.top_k, with_experts)
        return self.trace

    def stretch(self, layers: int | None, tokens: int) -> Trace:
        """Return the real trace, or a synthetic one: so many tokens in the first layers, or all."""
        if self.workload is None or self.trace is not None:
            return self.trace_of(1)
        model = self.model
        layers = min(layers or model.layers, len(model.moe_layers))
        experts, top_k = model.routed_experts, model.top_k
        return routing_trace(self.workload, experts, top_k, layers, tokens, self.seed)

    def provenance(self, trace: Trace | None, options: dict[str, object]) -> dict[str, object]:
        """Return the record that stands in the instance: enough to make it again.

        The trace is None where nothing was taken from one.
        """
        return {
            "machine": self.machine.name if self.names_machine else None,
            "model": self.model.name,
            "trace": None if trace is None else {"name": trace.name} | (trace.facts or {}),
            "seed": self.seed,
            "options": options,
            "rounding": f"costs rounded up to multiples of {self.quantum_ns} ns",
        } | (self.notes or {})


ANY_MACHINE = "trimoe"
"""Stands in a source where no machine says anything of an instance."""


class Where(NamedTuple):
    """Where an option of a generator changes the instance; elsewhere it is refused.

    Attributes
    ----------
    words
        The condition.
    holds
        Whether it does: of the generator's options, and of the source.
    """

    words: str
    holds: Callable[[Any, Source], bool]


FeltWhere = Mapping[str, Where]
"""Option, or field of a source -> where it is felt; what stands in none is felt everywhere."""


def check_felt(options: Frozen, source: Source) -> None:
    """Raise InputError for what was asked for and would change nothing.

    `options` has its table as `felt_where`. A default asks for nothing.
    """
    table: FeltWhere = getattr(type(options), "felt_where", {})
    known = type(options).model_fields
    for name, where in table.items():
        if name in known:
            asked = getattr(options, name) != known[name].default
        else:
            asked = bool(getattr(source, name))
        if asked and not where.holds(options, source):
            flag = "--" + name.replace("_", "-")
            raise InputError(f"has no effect: it is felt {where.words}", field=flag)


Made = TypeVar("Made", bound=InstanceEnvelope)
Options = TypeVar("Options", bound=Frozen)


class Record(Frozen, extra="ignore"):
    """The parts of a provenance that are needed.

    Parameters
    ----------
    layout_loads
        What a layout may be decided from, by `moeopt.sim.traces.windows.LayoutFrom`: tokens of
        every expert.
    """

    machine: str | None
    model: str
    seed: int = Field(strict=True, ge=0)
    options: dict[str, object]
    layout_loads: dict[str, Ids] = Field(default_factory=dict)

    @classmethod
    def of(cls, instance: InstanceEnvelope) -> "Record | None":
        """Return the record of an instance, None if it lacks a part."""
        try:
            return cls.model_validate(instance.provenance or {})
        except ValidationError:
            return None

    def source(self, instance: InstanceEnvelope) -> Source | None:
        """Return what the instance was made of; None if machine or model is not the package's."""
        if self.model not in names("models"):
            return None
        named = self.machine or ANY_MACHINE
        try:
            machine = (get_machine if named in names("machines") else compose)(named)
        except InputError:
            return None
        return Source(
            machine=machine,
            model=get_model(self.model),
            seed=self.seed,
            quantum_ns=instance.quantum_ns or 1,
            name=instance.name,
            names_machine=self.machine is not None,
        )

    def loads(self, experts: int) -> dict[str, list[int]]:
        """Return those of `layout_loads` that have an entry for every expert."""
        return {key: list(of) for key, of in self.layout_loads.items() if len(of) == experts}


def made_again(
    instance: Made,
    assumption: str,
    value: str,
    *,
    assumed: Collection[str],
    options: type[Options],
    make: Callable[[Made, Record, Options], Made | None],
    younger: Mapping[str, object] | None = None,
) -> Made | None:
    """Return the same loads on the same machine under another value of one assumption.

    Parameters
    ----------
    assumption, value
        An option of the generator that is an assumption, e.g. ``"cold_cut"``, and its value.
    assumed
        The generator's options that are assumptions.
    options
        The generator's ``Options``.
    make
        Gives the instance that a record and options stand for, None if they give none.
    younger
        Options that older provenances lack, with what held then.

    Returns
    -------
    Instance or None
        With the same name, and the value in its provenance's options. None if the generator has no
        such assumption, or the instance does not say what it was made from: the provenance lacks
        machine, model, seed, options or what `make` needs besides, the two are no presets, or what
        they give is another instance.

    Raises
    ------
    InputError
        If the assumption has no such value.
    """
    record = Record.of(instance)
    if assumption not in assumed or record is None or record.source(instance) is None:
        return None
    stated = {**(younger or {}), **record.options}
    known = {name: stated[name] for name in options.model_fields if name in stated}
    try:
        before = options(**known)
        same = make(instance, record, before)
    except (ValidationError, InputError):
        return None
    if same is None or same.model_copy(update={"provenance": instance.provenance}) != instance:
        return None
    with validated():
        after = options(**before.model_dump() | {assumption: value})
    return make(instance, record, after)
