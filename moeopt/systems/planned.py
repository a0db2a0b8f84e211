"""Deciding a step from the plan and the loads that come: everything but the timing.

A policy sees loads and layout, and migrations fit by the sum of their times: without caches timing
has no say, and a step is decided as a whole. A cache has what has been copied by the time at which
a layer's experts are known, so that with caches layers are decided one after the other.

Online policies: which domain runs each expert, chosen from the loads that come.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from moeopt.core.assumptions import check_assumed, split_name
from moeopt.core.errors import InputError
from moeopt.core.wording import unknown_name
from moeopt.problems.tri_domain.assumptions import ASSUMPTIONS
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.sim.machines.machine import Machine
from moeopt.sim.plan import Assignment, Plan
from moeopt.systems import policies

from .caches import Caches, LookedUp
from .cost_table import UNAVAILABLE_NS, CostTable
from .loads import Loads
from .migrations import DIMM_LINK, PCIE, Migrations, Transfer
from .work import (
    CPU,
    GPU,
    NDP,
    NEVER_NS,
    NOWHERE,
    Flags,
    Integers,
    LayerTimes,
    Offer,
    Policy,
    StepWork,
    per_layer,
)


def get_policy(name: str) -> Policy:
    """Return a policy by name; a heuristic's may carry assumptions: ``trimoe[tie_order=gpu]``.

    Raises
    ------
    InputError
        If there is none of that name; the message lists those that exist. If it takes no such
        assumption.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    plain, assumed = split_name(name)
    if plain in HEURISTICS:
        check_assumed(plain, assumed, ASSUMPTIONS)
        return partial(HEURISTICS[plain], **assumed)
    raise unknown_name("policy", name, policy_names(), "known policies")


def check_policy(plan: Plan, machine: Machine) -> None:
    """Raise InputError if a plan's policy could not do here what it is there for.

    Where all experts are striped none can run on NDP units, and the policies that use those would
    do what others do without a word.
    """
    name, _ = split_name(plan.policy)
    if not machine.ndp_units:
        if name in ON_NDP:
            text = f"{name} runs experts on NDP units, and {machine.name} has none"
            raise InputError(text, field="policy")
        return
    if name in (*ON_NDP, *ON_ALL) and plan.layout is None and not plan.migrations:
        text = f"{name} runs localized experts on NDP units, and a plan without a layout has none"
        raise InputError(f"{text} (moeopt compare lays them out)", field="policy")


def policy_names() -> list[str]:
    """Return the names of all policies."""
    return [*BUILT_IN, *HEURISTICS]


def _cpu_for_misses(offer: Offer) -> Integers:
    return np.where(offer.resident, GPU, CPU)


def _threshold(offer: Offer) -> Integers:
    """Schedule every layer optimally, each on its own (`moeopt.problems.tri_domain.threshold`)."""
    from moeopt.problems.tri_domain.online import METHODS

    choice = np.full(offer.tokens.shape, GPU)
    for layer, table in enumerate(offer.tables()):
        rows = np.flatnonzero(offer.tokens[layer])
        if len(rows):
            choice[layer, rows] = METHODS["threshold"](table.take(rows, axis=1), offer.dimms)[0]
    return choice


BUILT_IN: dict[str, Policy] = {
    "gpu-only": policies.klotski,
    "cpu-for-misses": _cpu_for_misses,
    "threshold": _threshold,
}
"""Policies that are no heuristics of tri_domain."""

HEURISTICS: dict[str, Callable[..., Integers]] = {
    "greedy": policies.greedy,
    "trimoe": policies.trimoe,
    "klotski": policies.klotski,
    "ktransformers": policies.ktransformers,
    "monde": policies.monde,
    "fiddler": policies.fiddler,
    "fiddler-as-coded": policies.fiddler_as_coded,
    "hybrimoe": policies.hybrimoe,
}
"""The heuristics of tri_domain by name, with their assumptions as keyword arguments."""


ON_NDP, ON_ALL = ("trimoe", "monde"), ("greedy", "threshold")
"""Policies that are about NDP units, and those that use them beside others."""

DOMAIN_NAMES = {"gpu": GPU, "cpu": CPU, "ndp": NDP}


class Decider:
    """Decides one step after the other; layout and caches carry over.

    Parameters
    ----------
    plan
        Fits the loads and the machine.
    costs
        Its widths are the sorted different numbers in ``plan.bits``, if there are any.
    dimms
        Number of DIMMs.

    Attributes
    ----------
    by_layer
        Whether a layer is decided when its experts are known, as its cache has what has been copied
        by then; otherwise all layers are decided at once.
    """

    def __init__(
        self, plan: Plan, costs: CostTable, loads: Loads, dimms: int, times: LayerTimes
    ) -> None:
        self._plan, self._costs, self._loads, self._dimms = plan, costs, loads, dimms
        _, layers, experts = loads.counts.shape
        self.layers = layers
        self._policy = get_policy(plan.policy)
        self._dimm = _layout(plan, layers, experts)
        self._resident = _residents(plan, layers, experts)
        self._width = _widths(plan, layers, experts)
        self._deferred = [*per_layer(plan.deferred, layers)[:-1], 0]
        self.caches = Caches(per_layer(plan.cache_ways, layers))
        self.by_layer = any(self.caches.ways)
        self._fixed: dict[int, list[Assignment]] = {}
        for entry in plan.assignments:
            self._fixed.setdefault(entry.layer, []).append(entry)
        window = [a + o for a, o in zip(times.attention_ns, times.other_ns, strict=True)]
        given = {PCIE: plan.pcie_window_ns, DIMM_LINK: plan.dimm_link_window_ns}
        windows = {
            link: [given[link]] * layers if plan.window == "given" else window for link in given
        }
        self.migrations = Migrations(plan, costs, windows)
        self._step = 0
        self._there = self._resident
        self._transfers: list[list[Transfer]] = []
        self._order: Integers | None = None

    def begin(self, step: int) -> None:
        """Begin a step: with its migrations, and with the order in which experts are mentioned."""
        self._step, self._there = step, self._resident.copy()
        self._transfers = self.migrations.before_layers(step, self._there, self._dimm, self._width)
        needed = self.by_layer or any(self._deferred)
        self._order = self._loads.first_mentions(step) if needed else None

    def decide(self, rows: slice, now_ns: int = 0) -> StepWork:
        """Return what happens in some layers of the step, and remember what it changes.

        Parameters
        ----------
        rows
            Consecutive layers; one of them where layers have caches.
        now_ns
            When their experts are known.
        """
        counts, resident = self._loads.counts[self._step, rows], self._there[rows]
        order = None if self._order is None else self._order[rows]
        asked = LookedUp([], [])
        wanted = 0
        if order is not None and self.caches.ways[rows.start]:
            listed = np.flatnonzero((counts[0] > 0) & ~resident[0])
            listed = listed[order[0, listed].argsort()]
            wanted = len(listed)
            asked = self.caches.ask(rows.start, listed.tolist(), now_ns)
            resident[0, asked.hits] = True
        offer = self._offer(rows, counts, resident)
        domain = np.where(counts > 0, self._policy(offer), NOWHERE)
        self._fix(rows, domain, offer)
        cost, upload, dram = self._costs_of(rows, domain, offer)
        return StepWork(
            domain=domain,
            tokens=counts,
            cost_ns=cost,
            upload_ns=upload,
            dram_ns=dram,
            dimm=self._dimm[rows].copy() if self._plan.migrations else self._dimm[rows],
            deferred=self._defer(rows, domain, counts, order),
            transfers=self._transfers[rows],
            copies=[self._copies(rows.start, asked.let_in, domain[0], now_ns)]
            if asked.let_in
            else [()] * len(domain),
            hits=len(asked.hits),
            misses=wanted - len(asked.hits),
        )

    def copied(self, layer: int, ends_ns: Mapping[int, int]) -> None:
        """Take note of when copies into a layer's cache end, expert by expert."""
        for expert, end in ends_ns.items():
            self.caches.arrives(layer, expert, end)

    def _copies(
        self, layer: int, let_in: list[int], domain: Integers, now_ns: int
    ) -> list[tuple[int, int]]:
        """Return expert and length of each copy; what the GPU computes brings its weights along."""
        away = list[int]()
        for expert in let_in:
            if domain[expert] == GPU:
                self.caches.arrives(layer, expert, now_ns)
            else:
                away.append(expert)
        if away:
            self._costs.require("pcie")
        return [(one, int(self._costs.fetch_ns[self._width[layer, one]])) for one in away]

    def _offer(self, rows: slice, counts: Integers, resident: Flags) -> Offer:
        width, dimm = self._width[rows], self._dimm[rows]
        striped = dimm == STRIPED

        def cost(path: str) -> Integers:
            table = self._costs.path_ns[path]
            return np.asarray(table[0][counts] if len(table) == 1 else table[width, counts])

        def by_layout(path: str) -> Integers:
            if striped.all():
                return cost(f"{path}_striped")
            return np.where(striped, cost(f"{path}_striped"), cost(f"{path}_localized"))

        read = self._costs.read_ns
        dram = np.where(striped, read["striped"][width], read["localized"][width])
        return Offer(
            dimms=self._dimms,
            tokens=counts,
            resident=resident,
            dimm=dimm,
            gpu_ns=np.where(resident, cost("gpu_hit"), by_layout("gpu_miss")),
            cpu_ns=by_layout("cpu"),
            ndp_ns=cost("ndp"),
            gpu_dram_ns=np.where(resident, 0, dram),
            cpu_dram_ns=dram,
        )

    def _fix(self, rows: slice, domain: Integers, offer: Offer) -> None:
        for row in range(len(domain)):
            for entry in self._fixed.get(rows.start + row, ()):
                if entry.step in (None, self._step):
                    for name, number in DOMAIN_NAMES.items():
                        ids = np.array(getattr(entry, name), dtype=np.int64)
                        active = ids[offer.tokens[row, ids] > 0]
                        domain[row, active] = number

    def _costs_of(
        self, rows: slice, domain: Integers, offer: Offer
    ) -> tuple[Integers, Integers, Integers]:
        """Return device times, uploads and host reads, or say why there is none."""
        active = domain != NOWHERE
        striped_ndp = (domain == NDP) & (offer.dimm == STRIPED)
        if striped_ndp.any():
            layer, expert = np.argwhere(striped_ndp)[0].tolist()
            where = f"step {self._step}, layer {rows.start + layer}: expert {expert}"
            raise InputError(f"plan: {where} is striped and cannot run on NDP")
        on_gpu, on_cpu = domain == GPU, domain == CPU
        cost = np.where(domain == NDP, offer.ndp_ns, 0)
        cost = np.where(on_gpu, offer.gpu_ns, np.where(on_cpu, offer.cpu_ns, cost))
        dram = np.where(on_cpu, offer.cpu_dram_ns, 0)
        dram = np.where(on_gpu, offer.gpu_dram_ns, dram)
        if self._costs.missing and (cost[active].max(initial=0) >= UNAVAILABLE_NS):
            at = np.argwhere(active & (cost >= UNAVAILABLE_NS))[0].tolist()
            self._say_what_is_missing(int(domain[at[0], at[1]]), offer, at[0], at[1])
        uploaded = on_gpu & ~offer.resident
        upload = np.zeros_like(cost)
        if self._plan.gpu_work == "two parts" and uploaded.any():
            width = self._width[rows][uploaded]
            cost[uploaded] = self._costs.path_ns["gpu_hit"][width, offer.tokens[uploaded]]
            upload[uploaded] = np.maximum(self._costs.fetch_ns[width], dram[uploaded])
        return cost, upload, dram

    def _say_what_is_missing(self, domain: int, offer: Offer, layer: int, expert: int) -> None:
        layout = "striped" if offer.dimm[layer, expert] == STRIPED else "localized"
        if domain == NDP:
            self._costs.require("ndp")
        elif domain == CPU:
            self._costs.require(f"cpu_{layout}")
        elif not offer.resident[layer, expert]:
            self._costs.require(f"gpu_miss_{layout}")
        self._costs.require("gpu_hit")

    def _defer(
        self, rows: slice, domain: Integers, counts: Integers, order: Integers | None
    ) -> Flags:
        """Defer each layer's CPU experts of least tokens; among equals the last in order."""
        on_cpu = domain == CPU
        most = np.array(self._deferred[rows])[:, None]
        if order is None or not most.any():
            return np.zeros(domain.shape, dtype=np.bool_)
        mentions = int(order.max()) + 1
        key = np.where(on_cpu, counts * mentions + (mentions - 1 - order), NEVER_NS)
        last = np.clip(most - 1, 0, domain.shape[1] - 1)
        limit = np.take_along_axis(np.sort(key, axis=1), last, axis=1)
        late: Flags = on_cpu & (key <= limit) & (most > 0)
        return late


def _layout(plan: Plan, layers: int, experts: int) -> Integers:
    if plan.layout is None:
        return np.full((layers, experts), STRIPED)
    rows = [[STRIPED if dimm is None else dimm for dimm in row] for row in plan.layout]
    return np.array(np.broadcast_to(np.array(rows, dtype=np.int64), (layers, experts)))


def _residents(plan: Plan, layers: int, experts: int) -> Flags:
    resident = np.zeros((layers, experts), dtype=np.bool_)
    rows = plan.resident or ((),)
    for layer in range(layers):
        resident[layer, list(rows[layer if len(rows) > 1 else 0])] = True
    return resident


def widths_of(plan: Plan) -> tuple[float, ...]:
    """Return the different widths that a plan names, rising."""
    return tuple(sorted({bits for row in plan.bits or () for bits in row}))


def _widths(plan: Plan, layers: int, experts: int) -> Integers:
    if plan.bits is None:
        return np.zeros((layers, experts), dtype=np.int64)
    known = widths_of(plan)
    rows = [np.broadcast_to(np.searchsorted(known, row), (experts,)) for row in plan.bits]
    return np.array(np.broadcast_to(np.array(rows), (layers, experts)))
