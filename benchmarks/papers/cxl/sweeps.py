"""What the CXL paper leaves open, moved alone."""

from benchmarks.papers.cxl.figures import SCALE_BITS, ndp_cut, speedup
from benchmarks.papers.cxl.layer import HOT, WIDTHS
from benchmarks.papers.sweep import Sweep

COLUMNS = (
    "C2d 8x7B, 3 bits (8.7)",
    "C3d 8x7B, 2 bits (11.2)",
    "C4d 8x22B, 3 bits (8.9)",
    "C4d 8x22B, 2 bits (11.5)",
)


def layer_overhead() -> Sweep:
    """Return the speedups by what a layer costs besides experts and the bytes of attention."""
    rows = [("experts alone", None), *((f"{us:g} us", us) for us in (0.0, 30.0, 60.0, 100.0))]
    return Sweep(
        parameter="fixed time of a layer on the GPU, besides attention's bytes",
        default="0 us",
        source="the paper's simulator is not described so far",
        results=COLUMNS,
        rows=tuple(
            (name, tuple(speedup(model, width, fixed_us=us) for model in HOT for width in WIDTHS))
            for name, us in rows
        ),
        note="'experts alone' leaves attention out as well",
    )


def scale_bits() -> Sweep:
    """Return the device's cuts by what scales add to the widths."""
    return Sweep(
        parameter="bits per weight for scales",
        default="0",
        source="4.2 counts none",
        results=("C5 3 bits (5)", "C5 2 bits (8)"),
        rows=tuple(
            (f"{extra:g}", tuple(ndp_cut(width + extra) for width in WIDTHS))
            for extra in (0.0, SCALE_BITS / 2, SCALE_BITS, 2 * SCALE_BITS)
        ),
    )
