"""What is checked before anything is solved: the trace, the widths, and where files are to go."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import InputError
from tests.planner.small_plans import MODEL, planned_for, trace_of
from tests.refusals import refused
from tests.rooms.core import check_file, check_folder
from tests.rooms.planner import decision, executed
from tests.rooms.sim import Trace, check_trace, get_model


@pytest.fixture(autouse=True)
def _nothing_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "solve", None)
    monkeypatch.setattr(executed, "simulated", None)


def foreign(layers: int, experts: int, tokens: int = 40) -> Trace:
    """Return a trace of a model of another shape, with as many experts per token as the small."""
    shape = MODEL.model_copy(update={"layers": layers + 2, "routed_experts": experts})
    return trace_of(shape, tokens)


@pytest.mark.parametrize(
    ("trace", "has"),
    [
        (foreign(3, 16), "3 layers x 16 experts"),
        (foreign(5, 16), "5 layers x 16 experts"),
        (foreign(4, 32), "4 layers x 32 experts"),
        (foreign(4, 8), "4 layers x 8 experts"),
    ],
)
def test_a_foreign_trace(trace: Trace, has: str) -> None:
    """Fewer or more layers or experts than the model's: one line names both shapes."""
    with pytest.raises(InputError) as error:
        planned_for(trace=trace)
    said = str(error.value)
    assert has in said
    assert "are not those of small: 4 x 16" in said
    assert "\n" not in said


def test_the_trace_of_another_published_model() -> None:
    """45 layers x 128 experts with deepseek-v3, of which only 45 layers would have been counted."""
    ids = np.random.default_rng(0).integers(0, 128, size=(60, 45, 8))
    with pytest.raises(InputError, match=r"45 layers x 128 experts .* 58 x 256"):
        check_trace(Trace("glm", ids), get_model("deepseek-v3"))


def test_a_short_trace_may_miss_experts() -> None:
    """With few choices it is not certain that those of high numbers are not there."""
    check_trace(foreign(4, 8, tokens=3), MODEL)
    check_trace(trace_of(MODEL, 40), MODEL)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"average_bits": 1}, "average_bits: must be at least 2, the least of the widths 2, 4, 8"),
        ({"average_bits": 3, "bits": "4,8"}, "average_bits: must be at least 4"),
        ({"average_bits": 4, "bits": "4.5,8"}, "bits: must be whole numbers from 1 to 64"),
        ({"average_bits": 4, "bits": "4,99"}, "bits: must be whole numbers from 1 to 64"),
        ({"loss_table": Path("none.json")}, "loss_table: needs average_bits"),
        ({"loss_table": Path("none.json"), "average_bits": 4}, "none.json: "),
        ({"bits": "2,4"}, "bits: must be a width or a quantisation's name"),
        ({"steps": 0}, "steps: must be at least 1"),
        ({"max_deferred": -1}, "max_deferred: must be at least 0"),
        ({"time_limit_s": 0.0}, "time_limit_s: must be above 0"),
        ({"decide_steps": 0}, "decide_steps: must be at least 1"),
        ({"hold_out_steps": 0}, "hold_out_steps: must be at least 1"),
        ({"reserved_gib": -1.0}, "reserved_gib: must be at least 0"),
        ({"context": -1}, "context: must be from 0 to"),
    ],
)
def test_options(options: dict[str, Any], reason: str) -> None:
    """One line, which names the option; nothing is ignored."""
    assert refused(planned_for, **options).startswith(reason)


def test_where_files_are_to_go(tmp_path: Path) -> None:
    """A folder is made; nothing is left in it. What cannot be written to is named."""
    check_folder("--export", tmp_path / "a" / "b")
    check_file("--out", tmp_path / "a" / "plan.json")
    assert [path.name for path in (tmp_path / "a").rglob("*")] == ["b"]
    (tmp_path / "file").write_text("")
    for path in ("/proc/x", tmp_path / "file" / "x"):
        with pytest.raises(InputError, match=f"--export: {path}: "):
            check_folder("--export", Path(path))
        with pytest.raises(InputError, match=f"--out: {path}: "):
            check_file("--out", Path(path))
    with pytest.raises(InputError, match="is a folder"):
        check_file("--out", tmp_path / "a")
