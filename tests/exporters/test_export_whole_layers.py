"""llama.cpp takes whole layers: the best such plan, and its loss; scripts that start runtimes."""

import os
import shlex
import subprocess
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

import moeopt
from tests.exporters.llama_cpp_rules import ROUTED, on_cpu, tensors
from tests.exporters.placements import EXPERTS, LAYERS, instance, plan, shape
from tests.rooms.exporters import OptionValue
from tests.rooms.placement import Instance
from tests.rooms.sim import override

DENSE = [(), (0,), (0, 1), (1, 3)]
BY_SLOTS = [0, 4, 5, 9, 12, 20]


def hidden(dense: tuple[int, ...]) -> list[int]:
    """Return the model's numbers of its layers with experts."""
    return [layer for layer in range(LAYERS + len(dense)) if layer not in dense]


def whole_plan(of: Instance, on: tuple[int, ...]) -> list[list[int]]:
    """Return the placement with these of the plan's layers on the GPU."""
    return [list(range(of.experts)) if layer in on else [] for layer in range(of.layers)]


def best_whole(of: Instance) -> int:
    """Return the least objective of whole layers, by the checker, trying them all."""
    found = []
    for count in range(of.layers + 1):
        for on in combinations(range(of.layers), count):
            verdict = moeopt.check(of, plan(of, whole_plan(of, on)))
            if isinstance(verdict.objective, int):
                found.append(verdict.objective)
    return min(found)


@pytest.mark.parametrize("dense", DENSE)
@pytest.mark.parametrize("on", [(), (3,), (0,), (1, 2), (0, 2), (1, 2, 3), (0, 1, 2, 3)])
def test_whole_layers_are_taken_as_they_are(dense: tuple[int, ...], on: tuple[int, ...]) -> None:
    """The routed experts of the other layers, and nothing else, stay on the CPU."""
    given = instance(0, slots=LAYERS * EXPERTS)
    solution = plan(given, whole_plan(given, on))
    numbers = hidden(dense)
    off = [numbers[layer] for layer in range(LAYERS) if layer not in on]
    exported = moeopt.export(solution, given, to="llama.cpp", model=shape(dense))
    names = tensors(LAYERS + len(dense), dense)
    kept = {f"blk.{layer}.{kind}.weight" for layer in off for kind in ROUTED}
    assert on_cpu(exported.text, names) == kept
    assert exported.loss is None
    assert off == exported.notes["cpu_layers"]
    first = exported.same_as
    assert (first is not None) == (bool(off) and off == numbers[: len(off)])
    if first is not None:
        assert on_cpu(first, names) == kept


def test_the_flags_are_the_same_words_however_a_shell_reads_them(tmp_path: Path) -> None:
    """`$(cat ...)`, `eval`, `xargs` and typed: no quotes, nothing that is special in a shell."""
    given = instance(0, slots=LAYERS * EXPERTS)
    many = given.model_copy(update={"layers": 4})
    exported = moeopt.export(
        plan(many, whole_plan(many, (1,))), many, to="llama.cpp", model=shape()
    )
    exported.save(tmp_path / "flags.txt")
    words = exported.text.split()
    for line in (
        "printf '%s\\n' $(cat flags.txt)",
        'eval printf "\'%s\\n\'" "$(cat flags.txt)"',
        "xargs printf '%s\\n' < flags.txt",
        f"printf '%s\\n' {exported.text.strip()}",
    ):
        done = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.split("\n")[:-1] == words, line


def test_all_blocks_on_the_cpu_are_one_flag() -> None:
    """Not a pattern for each; one GPU block makes patterns of the others."""
    given = instance(0, slots=LAYERS * EXPERTS)
    for on in ((), (1,)):
        text = moeopt.export(
            plan(given, whole_plan(given, on)), given, to="llama.cpp", model=shape()
        ).text
        assert ("--cpu-moe" in text, "-ot" in text) == (not on, bool(on))


def test_blocks_of_more_than_one_digit_are_told_apart() -> None:
    """The pattern of block 1 finds nothing of blocks 11 and 21."""
    names = tensors(30, ())
    for layer in (1, 2, 11):
        kept = on_cpu(shlex.join(["-ngl", "999", *override((layer,))]), names)
        assert kept == {f"blk.{layer}.{kind}.weight" for kind in ROUTED}


@pytest.mark.parametrize("folder", ["a plan", "it's $(touch hacked)", 'a "quoted\\ one'])
def test_the_script_starts_the_server_with_the_flags(folder: str, tmp_path: Path) -> None:
    """From anywhere, with paths of that place, and the file beside itself."""
    given = instance(0, slots=LAYERS * EXPERTS)
    solution = plan(given, whole_plan(given, (0, 2)))
    options: dict[str, OptionValue] = {"ep_size": 5}
    exported = moeopt.export(solution, given, to="sglang", model=shape(), options=options)
    (tmp_path / folder).mkdir()
    file = tmp_path / folder / "a\n$(touch hacked)'s map.json"
    exported.save(file)
    server = tmp_path / "a server"
    server.write_text("#!/bin/sh\nfor one; do printf '%s\\0' \"$one\"; done\n")
    server.chmod(0o755)
    script = file.with_name(f"{file.name}.run.sh")
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True)
    environment = {"PYTHON": "./a server", "PATH": os.environ["PATH"]}
    done = run([script, "m.gguf", "--kt-weight-path", "w x"], env=environment, check=True)
    words = done.stdout.split("\0")[:-1]
    assert exported.flags is not None
    flags = shlex.split(exported.flags(file))
    start = ["-m", "sglang.launch_server", "--model-path"]
    assert words == [*start, "m.gguf", *flags, "--kt-weight-path", "w x"]
    done = run([script], check=False)
    assert done.returncode
    assert "the model is missing" in done.stderr
    assert not list(tmp_path.rglob("hacked"))


@pytest.mark.parametrize("slots", BY_SLOTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_best_plan_of_whole_layers_is_found(seed: int, slots: int) -> None:
    """As good as the best of all, by brute force; the loss is against the plan given."""
    given = instance(seed, slots)
    result = moeopt.solve(given, "frequency")
    assert result.solution is not None
    exported = moeopt.export(result.solution, given, to="llama.cpp", model=shape())
    kept = on_cpu(exported.text, tensors(LAYERS + 1, (0,)))
    blocks = range(1, LAYERS + 1)
    on = tuple(b - 1 for b in blocks if not any(name.startswith(f"blk.{b}.") for name in kept))
    own = moeopt.check(given, plan(given, whole_plan(given, on))).objective
    if exported.loss is None:
        assert result.solution == plan(given, whole_plan(given, on))
        return
    assert (exported.loss.given, exported.loss.exported) == (result.objective, own)
    assert own == best_whole(given)
    assert exported.loss.proven
    assert isinstance(result.objective, int)
    assert isinstance(own, int)
    assert exported.loss.percent == pytest.approx(100 * (own / result.objective - 1))
    assert f"by {exported.loss.percent:+.3f} %" in str(exported.loss)


def test_a_plan_may_gain_by_it() -> None:
    """A poor plan given: the loss is negative, and says so."""
    given = instance(0, 10)
    poor = plan(given, [[0], [1], [2], []])
    loss = moeopt.export(poor, given, to="llama.cpp", model=shape()).loss
    assert loss is not None
    assert loss.percent is not None
    assert loss.percent < 0
    assert f"by -{-loss.percent:.3f} %" in str(loss)


def test_where_no_whole_layers_fit_it_is_said() -> None:
    """All slots must be used, and no whole layers use them all: exit code 3."""
    given = instance(0, 7, fill=True)
    solution = plan(given, [[0, 1], [0, 1], [0, 1], [0]])
    with pytest.raises(
        moeopt.InfeasibleError, match="whole layers on the GPU or off it: infeasible"
    ) as error:
        moeopt.export(solution, given, to="llama.cpp", model=shape())
    assert error.value.exit_code == 3


def test_another_restriction_makes_way() -> None:
    """Equal counts and whole layers at once would be all or nothing."""
    given = instance(0, 8, restriction="equal-counts")
    solution = plan(given, [[0, 1]] * LAYERS)
    exported = moeopt.export(solution, given, to="llama.cpp", model=shape())
    assert exported.text.count("=CPU") == LAYERS - 1
    assert exported.loss is not None
    free = instance(0, 8)
    assert exported.loss.exported == best_whole(free)
