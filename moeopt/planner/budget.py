"""Whether a plan can fit at all: the memory of the GPU and of the host, before anything is solved.

The GPU must hold all but the routed experts, the KV cache, and what is to stay free. GPU and host
together must hold the experts: where the host cannot hold all of them, those on the GPU have no
copy there.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import ceil

from moeopt.core.errors import InfeasibleError
from moeopt.core.units import GIB, MIB
from moeopt.problems.placement.generate import memory_of
from moeopt.problems.placement.instance import Instance as Placement
from moeopt.sim.machines.runtimes.memory import host_gib, is_stated

from .bits import widths_of
from .request import Request

NARROWER = (8, 6, 5, 4, 3, 2)
"""Widths that are proposed, in bits per weight: those that runtimes have formats for."""

NARROWER_KV = (8, 4)
"""Widths of a KV cache that are proposed."""

CONTEXT_STEP = 512
"""Contexts that are proposed are multiples of it."""

MOST_TRIED = 2**10

Change = tuple[str, Request]
"""An option with another value, and the request with it."""

Option = Callable[[Request], Iterator[Change]]
"""Yields the changes of one option, the least first."""

Deficit = Callable[[Request], int]
"""By how many bytes something does not fit; 0 or less if it fits."""


def memory(request: Request) -> dict[str, int]:
    """Return what the GPU's memory goes to, in bytes; see `memory_of`."""
    depth, batch = request.cache.depth, request.batch
    parts = memory_of(request.machine, request.model, batch, depth, request.kept_gib)
    moved = min(request.spare_cache_bytes, parts["reserved"])
    parts["reserved"] -= moved
    parts["kv_cache"] += moved
    return parts


@dataclass(frozen=True)
class HostMemory:
    """What the host's memory goes to, in bytes.

    Attributes
    ----------
    total
        Of the machine, or where it does not state it (`assumed`) the most that such a host takes.
    experts
        All routed experts, at their average width.
    reserved
        What is left free.
    shared
        Whether it is the GPU's as well: then it has room for nothing more.
    """

    total: int
    experts: int
    reserved: int
    shared: bool = False
    assumed: bool = False

    @property
    def room(self) -> int:
        """Bytes for experts."""
        return 0 if self.shared else max(0, self.total - self.reserved)

    @property
    def holds_all(self) -> bool:
        """Whether every expert has a copy on the host, those on the GPU too."""
        return self.experts <= self.room

    def to_dict(self) -> dict[str, int | bool | None]:
        """Return the numbers as JSON values."""
        return asdict(self) | {"copies_of_all": self.holds_all}


def host_memory(request: Request) -> HostMemory:
    """Return what the host's memory goes to."""
    model = request.model
    if request.average_bits is not None:
        model = model.quantized(request.average_bits)
    return HostMemory(
        total=int(host_gib(request.machine) * GIB),
        experts=len(model.moe_layers) * model.routed_experts * model.expert_bytes,
        reserved=int(request.host_reserved_gib * GIB),
        shared=request.machine.unified,
        assumed=not is_stated(request.machine),
    )


def check_memory(request: Request) -> None:
    """Raise InfeasibleError with what is missing, in MiB, and what would make it fit.

    Whatever is proposed fits by the same sums.
    """
    missing = gpu_deficit(request)
    if missing > 0:
        parts = memory(request)
        total = parts.pop("total")
        used = " + ".join(
            f"{name.replace('_', ' ')} {_mib(size)}"
            for name, size in parts.items()
            if name != "experts"
        )
        needed = f"GPU memory: {used} MiB, {_mib(missing)} MiB more than the {_mib(total)} MiB"
        raise InfeasibleError(
            f"{needed} of {request.machine.name}; {_remedies(request, gpu_deficit)}"
        )
    missing = host_deficit(request)
    if missing > 0:
        host = host_memory(request)
        on_gpu = memory(request)["experts"]
        needed = (
            f"host memory: experts {_mib(host.experts)} MiB less {_mib(on_gpu)} on the GPU"
            f" + reserved {_mib(host.reserved)} MiB, {_mib(missing)} MiB more than the"
            f" {_mib(host.total)} MiB"
        )
        raise InfeasibleError(
            f"{needed} of {request.machine.name}; {_remedies(request, host_deficit)}"
        )


def gpu_deficit(request: Request) -> int:
    """Return by how many bytes what must be on the GPU exceeds it; 0 or less if it fits."""
    parts = memory(request)
    return sum(parts[name] for name in ("dense", "kv_cache", "reserved")) - parts["total"]


def host_deficit(request: Request) -> int:
    """Return by how many bytes the experts exceed what GPU and host have room for together."""
    host = host_memory(request)
    return host.experts - memory(request)["experts"] - host.room


def within_host(request: Request, whole: Placement) -> Placement:
    """Return the placement with the host's room, where it cannot hold a copy of every expert."""
    host = host_memory(request)
    if host.holds_all:
        return whole
    slot_bytes = host.experts / int(whole.sizes.sum())
    return whole.model_copy(update={"host_slots": int(host.room / slot_bytes), "host_copy": False})


def least_on_gpu(whole: Placement) -> int:
    """Return how many slots of experts the host has no room for."""
    if whole.host_slots is None:
        return 0
    return max(0, int(whole.sizes.sum()) - whole.host_slots)


def _remedies(request: Request, deficit: Deficit) -> str:
    """Return which options would make it fit: each by itself or, if none does, together."""
    single = []
    together: list[str] = []
    changed = request
    for option in OPTIONS:
        alone = _best(request, option, deficit)
        if alone is not None and deficit(alone[1]) <= 0:
            single.append(alone[0])
        more = _best(changed, option, deficit)
        if more is not None and deficit(changed) > 0:
            together.append(more[0])
            changed = more[1]
    if single:
        return f"it fits with {' or '.join(single)}"
    if not together:
        return "no option makes it fit"
    if deficit(changed) <= 0:
        return f"it fits with {' '.join(together)}"
    return f"even {' '.join(together)} leaves {_mib(deficit(changed))} MiB too much"


def _best(request: Request, option: Option, deficit: Deficit) -> Change | None:
    """Return the least change that fits, else the one that saves most; None if none saves."""
    best, least = None, deficit(request)
    for change in option(request):
        if deficit(change[1]) < least:
            best, least = change, deficit(change[1])
        if least <= 0:
            break
    return best


def _less(field: str, step: float) -> Option:
    """Return the option of a number that may fall, in multiples of a step."""

    def option(request: Request) -> Iterator[Change]:
        for count in _falling(ceil(getattr(request, field) / step)):
            value = count * step
            said = f"{value:g}" if isinstance(value, float) else value
            changed = replace(request, **{field: value})  # type: ignore[arg-type]
            yield f"--{field.replace('_', '-')} {said}", changed

    return option


def _context(request: Request) -> Iterator[Change]:
    """Yield smaller caches: what is in them by default goes with their room, as asked for stays."""
    for said, changed in _less("context", CONTEXT_STEP)(request):
        if request.depth is None or changed.context >= request.depth:
            yield said, changed


def _depth(request: Request) -> Iterator[Change]:
    """Yield fewer tokens in each cache, where somebody said how many."""
    if request.depth is not None:
        yield from _less("depth", CONTEXT_STEP)(request)


def _kv_bits(request: Request) -> Iterator[Change]:
    for bits in NARROWER_KV:
        if bits < request.model.bits_of("kv"):
            model = request.model.with_kv_bits(bits)
            yield f"--kv-bits {bits}", replace(request, model=model)


def _other_bits(request: Request) -> Iterator[Change]:
    model = request.model
    for bits in NARROWER:
        if bits < (8 * model.resident_bytes / model.resident_weights):
            narrower = model.quantized(model.bits, bits)
            yield f"--other-bits {bits}", replace(request, model=narrower, other_bits=float(bits))


def _expert_bits(request: Request) -> Iterator[Change]:
    """Yield widths of all weights, where the others do not have one that was asked for."""
    model, average = request.model, request.average_bits
    for bits in NARROWER:
        if bits < (average or model.bits) and (
            average is None or bits >= widths_of(request.bits)[0]
        ):
            others = bits if request.other_bits is None else None
            if average is None:
                narrower = model.quantized(bits, others)
                yield f"--bits {bits}", replace(request, model=narrower)
            else:
                narrower = model.quantized(model.bits, others)
                changed = replace(request, model=narrower, average_bits=float(bits))
                yield f"--average-bits {bits}", changed


OPTIONS: tuple[Option, ...] = (
    _context,
    _depth,
    _kv_bits,
    _other_bits,
    _expert_bits,
    _less("batch", 1),
    _less("reserved_gib", 0.25),
    _less("host_reserved_gib", 0.25),
)


def _falling(below: int) -> Iterator[int]:
    """Yield numbers below another, some thousand at most, the largest first."""
    step = 2 ** max(0, below.bit_length() - MOST_TRIED.bit_length())
    yield from range((below - 1) // step * step, 0, -step)


def _mib(size: int) -> str:
    """Return bytes in MiB for people, rounded up."""
    return f"{-(-size // MIB):,}"
