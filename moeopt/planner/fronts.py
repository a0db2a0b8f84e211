"""What more of something buys: tokens per second against quality, and against the GPU's memory.

Each point is a plan of its own, made like any other. A point is on the front if no other one is at
least as good in both and better in one, by what was minimised: the steps decided on and the
expected loss. Points off it show what the grid of plans and the engine disagree on; nothing is
proven of plans between the points.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from moeopt.core.errors import InfeasibleError, InputError
from moeopt.core.units import GIB, MIB

from .bits import WIDTHS, widths_of
from .budget import gpu_deficit, host_memory, memory
from .planned import Planned, carried_out
from .request import Request
from .verdict import verdict

MOST_POINTS = 64


@dataclass(frozen=True)
class Point:
    """A plan on one of the fronts' axes.

    Attributes
    ----------
    cost
        What is paid: the expected loss, or bytes of GPU memory.
    average_bits
        Bits per weight of the routed experts on average.
    """

    cost: float
    average_bits: float
    planned: Planned

    @property
    def decided_on(self) -> float:
        """Tokens per second on the steps decided on."""
        return self.planned.comparisons[0].kept.tokens_per_s

    @property
    def later(self) -> float:
        """Tokens per second on the other steps."""
        return self.planned.comparisons[0].later.tokens_per_s

    @property
    def default(self) -> float | None:
        """What the best default reaches on the other steps; None if none fits."""
        found = verdict(self.planned.comparisons)
        return None if found is None else found.best.later.tokens_per_s

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as JSON values."""
        plan, losses = self.planned.chosen.plan, self.planned.losses
        return {
            "average_bits": self.average_bits,
            "gpu_memory_bytes": self.planned.memory["total"],
            "expert_memory_bytes": self.planned.memory["experts"],
            "residents": sum(map(len, plan.resident or ())),
            "losses": None if losses is None else asdict(losses),
            "tokens_per_s": {
                "kept": self.decided_on,
                "later": self.later,
                "best_default_later": self.default,
            },
        }


@dataclass(frozen=True)
class Front:
    """Points by rising cost.

    Attributes
    ----------
    axis
        "loss" or "memory".
    left_out
        What does not fit, a line for each.
    """

    axis: str
    points: tuple[Point, ...]
    left_out: tuple[str, ...]

    def holds(self, point: Point) -> bool:
        """Whether no other point is at least as good in both and better in one."""
        return not any(
            other.cost <= point.cost
            and other.decided_on >= point.decided_on
            and (other.cost, other.decided_on) != (point.cost, point.decided_on)
            for other in self.points
        )

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        points = [point.to_dict() | {"on_front": self.holds(point)} for point in self.points]
        return {"axis": self.axis, "points": points, "left_out": list(self.left_out)}


def fronts(planned: Planned, points: int = 6) -> tuple[Front, Front]:
    """Return the fronts against loss and against memory.

    Against loss the experts' average width varies from the least to the greatest, and everything
    else keeps its width: what that loses is in no table. Against memory the GPU varies from one
    that holds no expert to one that holds all of them, at the plan's widths.

    Parameters
    ----------
    planned
        The plan whose request is varied.
    points
        Plans on each front; the request's limit is that of each front.

    Raises
    ------
    InputError
        If there are not 2 to 64 points, or only one width.
    """
    check_points(points)
    request = planned.request
    limit_s, work = request.seconds / points, request.work_limit
    work = None if work is None else work / points
    base = replace(request, time_limit_s=limit_s, work_limit=work, joint_time_s=0.0)
    return (
        _front("loss", _by_width(base, points)),
        _front("memory", _by_memory(base, points)),
    )


def check_points(points: int) -> None:
    """Raise InputError if there are not 2 to 64 points."""
    if not 2 <= points <= MOST_POINTS:
        raise InputError(f"must be from 2 to {MOST_POINTS}, not {points}", field="points")


def _front(axis: str, requests: Iterator[Request]) -> Front:
    found, left_out = [], []
    for request in requests:
        average = request.average_bits or request.model.bits
        try:
            made = carried_out(request)
        except InfeasibleError as error:
            left_out.append(f"{average:g} bits: {error}")
            continue
        lost = made.losses
        cost = made.memory["total"] if axis == "memory" or lost is None else lost.expected
        found.append(Point(cost, average, made))
    return Front(axis, tuple(sorted(found, key=lambda point: point.cost)), tuple(left_out))


def _by_width(base: Request, points: int) -> Iterator[Request]:
    """Yield requests whose experts' average widths rise in equal ratios, in quarters of a bit."""
    widths = widths_of(base.bits)
    if base.average_bits is None:
        widths = tuple(width for width in widths if width <= base.model.bits)
    if len(widths) < 2:
        raise InputError(
            f"a front takes two widths at least, of {WIDTHS} or as given", field="bits"
        )
    ratio = (widths[-1] / widths[0]) ** (1 / (points - 1))
    averages = sorted({round(4 * widths[0] * ratio**step) / 4 for step in range(points)})
    for average in averages:
        yield replace(base, average_bits=average, bits=",".join(map(str, widths)))


def _by_memory(base: Request, points: int) -> Iterator[Request]:
    """Yield requests on GPUs with room for no expert, for all of them, and in equal steps."""
    gpu = base.machine.require("gpu")
    room = memory(base)
    others = room["total"] + gpu_deficit(base)
    experts = host_memory(base).experts
    for step in range(points):
        gib = (others + experts * step / (points - 1)) / GIB
        yield replace(base, machine=base.machine.with_devices(gpu.with_capacity(gib)))


def table(front: Front) -> str:
    """Return a front as text, a line for each point; a star marks those on it."""
    own = {"loss": "expected loss", "memory": "GPU MiB"}[front.axis]
    others = next((point.planned.comparisons[0].others for point in front.points), "drawn anew")
    lines = [
        f"tokens/s against {front.axis}; * no other point is better in one and as good in both",
        f"  {own:>13} {'bits':>6} {'residents':>9}   {'decided on':>10} {others:>10}"
        f" {'best default':>12}",
    ]
    for point in front.points:
        cost = f"{point.cost:.4g}" if front.axis == "loss" else f"{point.cost / MIB:,.0f}"
        held = sum(map(len, point.planned.chosen.plan.resident or ()))
        default = "-" if point.default is None else f"{point.default:.1f}"
        lines.append(
            f"{'*' if front.holds(point) else ' '} {cost:>13} {point.average_bits:6.4g} {held:9}"
            f"   {point.decided_on:10.1f} {point.later:10.1f} {default:>12}"
        )
    return "\n".join([*lines, *(f"  left out: {line}" for line in front.left_out)])
