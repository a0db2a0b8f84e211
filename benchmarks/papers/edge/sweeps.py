"""What the edge paper leaves open, moved alone."""

from benchmarks.papers.edge import monde, prefill
from benchmarks.papers.edge.cases import Setting
from benchmarks.papers.edge.figures import QWEN, over_monde
from benchmarks.papers.edge.framework import System
from benchmarks.papers.sweep import Sweep
from benchmarks.rooms.balance import ASSUMPTIONS

SYSTEMS: tuple[System, ...] = ("TP", "TP+LB", "TP+PRE", "TP+LB+PRE")

DECODE = (
    "E1 TP (1.99)",
    "E2 TP+LB (2.19)",
    "E3 TP+PRE (2.23)",
    "E4 all (2.41)",
    "E6 Qwen3, decode (1.69)",
)

PREFILL = ("E5 TP (1.26)", "E5 TP+LB (1.46)", "E6 Qwen3, prefill (1.36)")


def monde_rule() -> Sweep:
    """Return decoding by what MoNDE leaves to the GPU."""
    return Sweep(
        parameter="whole experts that MoNDE leaves to the GPU",
        default="balanced",
        source="III-C: MoNDE equates NDP computation time with weight transmission time",
        results=DECODE,
        rows=tuple((reading, _decode(Setting(reading))) for reading in monde.READINGS),
    )


def activation_latency() -> Sweep:
    """Return decoding by what an activation transfer takes besides its bytes."""
    return Sweep(
        parameter="time of an activation transfer on top of its bytes",
        default="1 us",
        source="assumed",
        results=DECODE,
        rows=tuple((f"{us:g} us", _decode(Setting(latency_us=us))) for us in (0.0, 1.0, 2.0, 5.0)),
    )


def slices() -> Sweep:
    """Return decoding by how finely experts are cut."""
    return Sweep(
        parameter="slices of an expert on each NDP unit",
        default="16",
        source="Eq. 1 to 3 have real numbers; the paper states no slices",
        results=DECODE,
        rows=tuple((str(count), _decode(Setting(slices=count))) for count in (1, 2, 4, 16, 32)),
    )


def prefetched_use() -> Sweep:
    """Return decoding by how often prefetched experts are used."""
    rows = (("as traces have it", Setting()), ("as any other expert", Setting(at_random=True)))
    return Sweep(
        parameter="use of prefetched experts",
        default="as traces have it",
        source="DeepSeek-V2-Lite and Mixtral-8x7B; Qwen3 and Phi gain as much over random",
        results=DECODE,
        rows=tuple((name, _decode(setting)) for name, setting in rows),
    )


def balance_times() -> Sweep:
    """Return prefill by whose times stand in Eq. 2."""
    assumed = next(s for s in ASSUMPTIONS if s.name == "balance_times")
    return Sweep(
        parameter="whose times T_n and T_g are in Eq. 2",
        default=assumed.default,
        source=f"{assumed.source}: {assumed.why}",
        results=PREFILL,
        rows=tuple(
            (f"{value}: {words}", _prefill(prefill.SELECTED, value))
            for value, words in assumed.values.items()
        ),
    )


def ndp_rate() -> Sweep:
    """Return prefill by how fast the NDP units compute."""
    rates = (prefill.STATED, 16.0, 32.0, 48.0, 64.0, 128.0, 256.0, prefill.UNLIMITED)
    return Sweep(
        parameter="NDP computing rate in prefill, in multiples of the stated one",
        default=f"{prefill.SELECTED:g}, selected",
        source="none: 64 multipliers at 0.8 GHz (Table I) keep up with memory at one token only",
        results=PREFILL,
        rows=tuple((f"{rate:g}", _prefill(rate)) for rate in rates),
        note="the largest multiple stands for units that are bound by memory whatever the tokens",
    )


def _decode(setting: Setting) -> tuple[float, ...]:
    qwen = over_monde("TP+LB+PRE", setting, models=(QWEN,))
    return (*(over_monde(system, setting) for system in SYSTEMS), qwen)


def _prefill(rate: float, times: str = "own") -> tuple[float, ...]:
    return (
        *prefill.speedups(rate, times=times),
        prefill.speedups(rate, (QWEN,), times=times)[1],
    )
