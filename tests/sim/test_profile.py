"""Measuring time tables: with a fake clock, through the command, and for real with torch."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError, get_machine
from tests.raising_cli import call
from tests.rooms.sim import (
    Bench,
    Machine,
    Settings,
    TimeTable,
    get_model,
    measure,
    padded,
    profile,
    step_costs,
    with_table,
)

CPU = ("numa0", "cpu")
TINY = {"hidden_size": 64, "expert_intermediate_size": 32}


class FakeExpert:
    """An expert whose runs take the times of a list, in turn, on a clock of its own."""

    def __init__(self, *durations_ns: int) -> None:
        self.durations: Iterator[int] = iter(durations_ns)
        self.now, self.calls = 0, list[int]()

    def run(self, tokens: int) -> None:
        self.calls.append(tokens)
        self.now += next(self.durations)

    def clock_ns(self) -> int:
        return self.now


def measured(
    expert: FakeExpert, settings: Settings, machine: str = "trimoe", threads: int | None = 8
) -> Machine:
    """Return a machine on which the fake expert was measured as one of DeepSeek-V2."""
    return profile(
        get_machine(machine),
        get_model("deepseek-v2"),
        settings,
        command="moeopt profile --fake",
        date="2026-01-02",
        bench=Bench(expert.run, "Fake CPU", "torch 0.0", threads),
        clock_ns=expert.clock_ns,
    )


def test_a_point_is_the_median_of_the_runs_after_the_warm_up() -> None:
    """Two runs of 1000 warm up; 5, 90, 7 have the median 7, and 20, 10, 60 have 20."""
    expert = FakeExpert(1000, 1000, 5, 90, 7, 1000, 1000, 20, 10, 60)
    seen: list[tuple[int, float]] = []
    settings = Settings(tokens=(1, 8), repeats=3, warm_up=2)
    points = measure(expert.run, settings, expert.clock_ns, lambda *point: seen.append(point))
    assert points == [(1, 7), (8, 20)]
    assert seen == points
    assert expert.calls == [1] * 5 + [8] * 5


def test_a_run_too_short_for_the_clock_is_refused() -> None:
    """A time of 0 would be a device of infinite speed."""
    expert = FakeExpert(0, 0, 0)
    settings = Settings(tokens=(1, 2), repeats=3, warm_up=0)
    with pytest.raises(InputError, match="tokens: 1 on one expert are too fast for the clock"):
        measure(expert.run, settings, expert.clock_ns)


def test_times_never_fall_since_few_tokens_can_be_padded() -> None:
    """9 at one token is 4, what two take; 8 at four is 7."""
    assert padded([(1, 9), (2, 4), (4, 8), (8, 7)]) == [(1, 4), (2, 4), (4, 7), (8, 7)]
    assert padded([(1, 1), (2, 2)]) == [(1, 1), (2, 2)]
    machine = measured(FakeExpert(9, 4, 8), Settings(tokens=(1, 2, 4), repeats=1, warm_up=0))
    assert machine.tables[0].points == ((1, 4), (2, 4), (4, 8))


def test_the_machine_gets_the_table_and_its_source_and_keeps_the_rest() -> None:
    """The table names device, date, versions and command; costs are looked up in it."""
    expert = FakeExpert(3_000_000, 5_000_000)
    machine = measured(expert, Settings(tokens=(1, 3), repeats=1, warm_up=0))
    (table,) = machine.tables
    assert (table.model, table.at, table.threads) == ("deepseek-v2", CPU, 8)
    assert table.source == (
        "measured on Fake CPU, 2026-01-02, torch 0.0: moeopt profile --fake"
        " (median of 1 runs after 0)"
    )
    preset = get_machine("trimoe")
    assert (machine.devices, machine.sources) == (preset.devices, preset.sources)
    assert table.threads == 8  # the only number measured, so that it is taken
    model = get_model("deepseek-v2")
    times = step_costs(machine, model).path_ns("cpu_striped", [1, 2, 3, 4], quantum_ns=1)
    assert times.tolist() == [3_000_000, 4_000_000, 5_000_000, 6_000_000]


def test_what_was_measured_comes_back_from_its_file(tmp_path: Path) -> None:
    """Machine files carry tables: write, read, equal."""
    machine = measured(FakeExpert(3, 5), Settings(tokens=(1, 3), repeats=1, warm_up=0))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(machine.model_dump(mode="json")))
    assert get_machine(path) == machine


def test_a_new_table_takes_the_place_of_its_like_only() -> None:
    """Same model, device and threads: replaced. Another number of threads: added."""
    machine = get_machine("rtx4090-7960x")
    points = ((1.0, 1.0), (2.0, 2.0))

    def table(threads: int) -> TimeTable:
        return TimeTable(
            model="mixtral-8x7b", at=CPU, points=points, source="here", threads=threads
        )

    replaced = with_table(machine, table(8), "mine")
    assert len(replaced.tables) == len(machine.tables)
    assert replaced.measured("mixtral-8x7b", CPU, None, 8) == table(8)
    assert len(with_table(machine, table(12), "mine").tables) == len(machine.tables) + 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Settings(device="tpu"), "device: must be cpu or gpu, not 'tpu'"),  # type: ignore[arg-type]
        (Settings(threads=0), "threads: must be from 1 to 65536, not 0"),
        (Settings(device="gpu", threads=2), "threads: is for the device cpu only"),
        (Settings(tokens=(4, 4)), r"tokens: must be at least two, rising, not \[4, 4\]"),
        (Settings(tokens=(0, 4)), "tokens: must be from 1 to 1048576"),
        (Settings(repeats=0), "repeats, warm_up: must be at least 1 and 0"),
    ],
)
def test_settings_out_of_range_are_refused_before_anything_runs(
    settings: Settings, says: str
) -> None:
    """Every setting, by name."""
    expert = FakeExpert()
    with pytest.raises(InputError, match=says):
        measured(expert, settings)
    assert expert.calls == []


def test_a_machine_without_cpu_and_quantized_experts_cannot_be_measured() -> None:
    """The table would belong to nothing."""
    with pytest.raises(InputError, match="machine cxl-ndp: cpu: is missing"):
        measured(FakeExpert(), Settings(), machine="cxl-ndp")
    with pytest.raises(InputError, match="model deepseek-v2: expert_bits: quantized experts"):
        profile(
            get_machine("trimoe"),
            get_model("deepseek-v2").quantized(4),
            Settings(),
            command="",
            date="",
        )


def command(arguments: list[str]) -> Any:
    """Run the subcommand alone and return its exit code; InputError passes through."""
    return call(["profile", *arguments])


def options(folder: Path, **changes: str) -> list[str]:
    """Return the subcommand's options for a tiny model, some changed."""
    shape = get_model("deepseek-v2").model_dump() | TINY | {"name": "tiny"}
    (folder / "tiny.json").write_text(json.dumps(shape))
    given = {
        "machine": "trimoe",
        "model": str(folder / "tiny.json"),
        "out": str(folder / "mine.json"),
        "tokens": "1,4",
        "repeats": "3",
        "warm-up": "1",
    } | changes
    return [part for name, value in given.items() for part in (f"--{name}", value)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"out": "."}, "--out: . is a folder; name a file"),
        ({"out": "no/such/mine.json"}, "--out: no/such/mine.json: there is no folder"),
        ({"tokens": "1,x"}, "--tokens: must be whole numbers with commas between, not '1,x'"),
        ({"machine": "nothing"}, "machine: 'nothing' is neither a file nor one of "),
    ],
)
def test_the_command_names_the_wrong_option(
    changes: dict[str, str], says: str, tmp_path: Path
) -> None:
    """Before torch is even looked for."""
    with pytest.raises(InputError) as caught:
        command(options(tmp_path, **changes))
    assert str(caught.value).startswith(says)
    assert caught.value.exit_code == 2


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, exit code 2, nothing written."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"needs torch \(pip install torch\)") as caught:
        command(options(tmp_path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "mine.json").exists()


def test_the_command_imports_nothing_heavy() -> None:
    """`moeopt --help` must answer at once: no numpy, pydantic or torch at import."""
    code = (
        f"import sys, {call.__module__};"
        "print([m for m in ('numpy', 'pydantic', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_tiny_expert_is_measured_for_real(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With torch: a table for one thread, positive and rising times, a source that names torch."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra moeopt[torch])")
    threads = torch.get_num_threads()
    try:
        assert command(options(tmp_path, threads="1")) == 0
    finally:
        torch.set_num_threads(threads)
    machine = get_machine(tmp_path / "mine.json")
    (table,) = machine.tables
    assert (machine.name, table.model, table.threads) == ("mine", "tiny", 1)
    assert [tokens for tokens, _ in table.points] == [1, 4]
    assert 0 < table.points[0][1] <= table.points[1][1]
    assert f"torch {torch.__version__}" in table.source
    assert capsys.readouterr().out.startswith(str(tmp_path / "mine.json"))


def test_torch_runs_the_three_products_of_an_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gate, up and down have an expert's sizes, and copies enough to leave the caches."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra moeopt[torch])")
    from tests.rooms.sim import profile_module as measuring

    model = get_model("deepseek-v2").model_copy(update=TINY)
    monkeypatch.setattr(measuring, "ROTATED_BYTES", 10 * model.expert_bytes)
    experts = measuring._experts(torch, model, "cpu", torch.bfloat16)
    assert len(experts) == 10
    assert [tuple(part.shape) for part in experts[0]] == [(32, 64), (32, 64), (64, 32)]
    assert sum(part.nbytes for part in experts[0]) == model.expert_bytes
