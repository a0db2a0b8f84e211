"""`moeopt export`: what it prints and writes, where it looks for instances, its exit codes."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

import moeopt
from tests.exporters.llama_cpp_arguments import parsed
from tests.exporters.placements import instance, random_plan, sets, shape
from tests.problems.cache.cache_random_instances import random_instance as random_cache
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.rooms.cli import run
from tests.rooms.deferral import uniform
from tests.rooms.exporters import all_targets

GIVEN = instance(2, 11)
PLAN = random_plan(GIVEN, 5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with an instance, its solution and the model's shape."""
    monkeypatch.chdir(tmp_path)
    moeopt.save(GIVEN, tmp_path / "some name.json")
    moeopt.save(PLAN, tmp_path / "plan.json")
    moeopt.save(shape(), tmp_path / "model.json")
    return tmp_path


def output(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Return what a command that succeeds writes to stdout and stderr."""
    assert run(["export", *words]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """Return the one line on stderr of a command that fails with this code."""
    assert run(["export", *words]) == code
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert captured.out == ""
    assert line.startswith("moeopt: error: ")
    return line.removeprefix("moeopt: error: ")


def test_text_goes_to_stdout_and_the_loss_to_stderr(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The instance is found by its name beside the solution; nothing is written."""
    before = sorted(folder.iterdir())
    out, err = output(capsys, "plan.json", "--to", "llama.cpp", "--model", "model.json")
    exported = moeopt.export(PLAN, GIVEN, to="llama.cpp", model=shape())
    assert out == exported.text
    assert exported.loss is not None
    given, found = exported.loss.given, exported.loss.exported
    assert err == f"moeopt: note: {exported.loss}: {given:,} ns becomes {found:,} ns\n"
    assert sorted(folder.iterdir()) == before


def test_the_short_form_is_offered_where_there_is_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the first layers stay on the CPU, as `--n-cpu-moe`."""
    whole = {"problem": "placement", "instance": GIVEN.name, "gpu": [[], [], [], list(range(5))]}
    moeopt.save(whole, folder / "plan.json")
    words = ("plan.json", "--to", "llama.cpp", "--model", "model.json")
    out, err = output(capsys, *words)
    kept = ",".join(f"blk.{layer}.ffn_.+exps=CPU" for layer in (1, 2, 3))
    rest = "-fa on -c 32768 -ub 512 --load-mode none"
    assert out == f"-ngl 999 -ot {kept} {rest}\n"
    assert err == f"moeopt: note: the same: -ngl 999 --n-cpu-moe 4 {rest}\n"
    same = json.loads(output(capsys, *words, "--json")[0])["same_as"]
    assert same == f"-ngl 999 --n-cpu-moe 4 {rest}"
    more = "--context", "65536", "--cache-type", "q8_0", "--ubatch", "4096", "--threads", "16"
    given = parsed(shlex.split(output(capsys, *words, *more)[0]))
    assert given == {
        **{"-ngl": "999", "-ot": kept, "-fa": "on", "-c": "65536", "-ctk": "q8_0", "-ctv": "q8_0"},
        **{"-ub": "4096", "-b": "4096", "-t": "16", "--load-mode": "none"},
    }


def test_with_out_file_and_notes_are_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else; stdout has the flags, which name the file."""
    before = set(folder.iterdir())
    words = ("plan.json", "--to", "sglang", "--model", "model.json", "--out", "a map.json")
    out, err = output(capsys, *words)
    assert shlex.split(out) == ["--init-expert-location", "a map.json"]
    [warning] = err.splitlines()
    assert warning.startswith("moeopt: warning: SGLang keeps all experts on GPUs")
    endings = ("", ".notes.json", ".run.sh")
    assert set(folder.iterdir()) - before == {folder / f"a map.json{end}" for end in endings}
    notes = json.loads((folder / "a map.json.notes.json").read_text())
    rows = json.loads((folder / "a map.json").read_text())["physical_to_logical_map"]
    found = [sorted(rows[layer][: notes["per_layer"][layer]]) for layer in notes["moe_layers"]]
    assert list(map(tuple, found)) == sets(PLAN.gpu)
    assert notes["flags"] == out.strip()
    assert [f"moeopt: warning: {text}" for text in notes["warnings"]] == [warning]
    first = (folder / "a map.json").read_bytes()
    output(capsys, *words)
    assert (folder / "a map.json").read_bytes() == first


def test_a_folder_gets_a_file_called_like_the_instance(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the suffix of the target."""
    (folder / "out").mkdir()
    words = ("plan.json", "--to", "ktransformers", "--model", "model.json", "--out", "out")
    out, _ = output(capsys, *words)
    names = sorted(path.name for path in (folder / "out").iterdir())
    assert names == [f"{GIVEN.name}.pt{ending}" for ending in ("", ".notes.json", ".run.sh")]
    assert f"--init-expert-location out/{GIVEN.name}.pt " in out


def test_targets_without_flags_print_the_path(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance is enough for a model file; a solution will do as well."""
    for source in ("some name.json", "plan.json"):
        assert output(capsys, source, "--to", "lp", "--out", "m.lp") == ("m.lp\n", "")
        text = (folder / "m.lp").read_text()
        assert output(capsys, source, "--to", "lp") == (text, "")


def test_json_has_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object: file or content, flags, objective, loss."""
    words = ("plan.json", "--to", "llama.cpp", "--model", "model.json", "--json")
    record = json.loads(output(capsys, *words)[0])
    assert record["content"].startswith("-ngl 999")
    assert record["file"] is None
    assert record["loss"]["given"] == record["objective"]
    assert record["loss"]["proven"] is True
    written = json.loads(output(capsys, *words, "--out", "flags.txt")[0])
    assert written["file"] == "flags.txt"
    assert written["flags"] + "\n" == record["content"]
    assert "content" not in written


def test_a_deferral_plan_goes_along(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its instance is found like the other one."""
    given = random_deferral(1, layers=3)
    moeopt.save(given, folder / "d.json")
    moeopt.save(uniform(given, 0), folder / "deferred.json")
    out, _ = output(
        capsys, "plan.json", "--to", "ktransformers", "--model", "model.json",
        "--deferral", "deferred.json", "--out", "p.pt",
    )  # fmt: skip
    assert out.endswith(" --kt-max-deferred-experts-per-token 0\n")


def test_the_loss_of_a_deferral_plan_has_its_own_units(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Time and penalty, not the placement's total time."""
    for seed in range(12):
        given = random_deferral(seed, layers=4)
        result = moeopt.solve(given, "dp")
        assert result.solution is not None
        if len(set(result.solution.deferred[:-1])) > 1:
            break
    moeopt.save(given, folder / "d.json")
    moeopt.save(result.solution, folder / "deferred.json")
    _, err = output(
        capsys, "plan.json", "--to", "ktransformers", "--model", "model.json",
        "--deferral", "deferred.json", "--out", "p.pt",
    )  # fmt: skip
    assert "the same number of deferred experts in every layer" in err
    assert err.count(" ns, total penalty ") == 2


def test_instances_are_looked_for_in_the_library(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under ./instances, by the name of the file, after the solution's own folder."""
    (folder / "plans").mkdir()
    shutil.move(folder / "plan.json", folder / "plans" / "plan.json")
    words = ("plans/plan.json", "--to", "sglang", "--model", "model.json")
    message = refused(capsys, *words)
    assert message.startswith(f"plans/plan.json: instance '{GIVEN.name}' is not found: neither ")
    assert message.endswith("holds it; give --instance")
    home = folder / "instances" / "placement" / "family"
    home.mkdir(parents=True)
    moeopt.save(GIVEN, home / f"{GIVEN.name}.json.gz")
    found, _ = output(capsys, *words)
    stated, _ = output(capsys, *words, "--instance", str(folder / "some name.json"))
    assert found == stated
    moeopt.save(GIVEN, home / f"{GIVEN.name}.json")
    assert refused(capsys, *words).endswith(": give --instance")
    moeopt.save(GIVEN, folder / "plans" / "i.json")
    moeopt.save(
        random_cache(0).model_copy(update={"name": GIVEN.name}), folder / "plans" / "c.json"
    )
    assert output(capsys, *words)[0] == found


def test_the_committed_plans_find_their_instances(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the repository's root, a solution of the library needs nothing else."""
    monkeypatch.chdir(root)
    best = json.loads(Path("instances/replication/best_known.json").read_text())
    file = next(entry["solution"] for name, entry in best.items() if name.startswith("esft/"))
    out, _ = output(capsys, f"instances/replication/{file}", "--to", "sglang")
    assert list(json.loads(out)) == ["physical_to_logical_map"]
    split = "instances/split/solutions/mix/2xrtx3090+epyc-7002-glm-4.5-air-ubatch512.json"
    out, _ = output(capsys, split, "--to", "llama.cpp")
    assert out.startswith("-ngl 999 -sm layer -ts ")


WITH_MODEL = "plan.json --model model.json --to"
REFUSED = {
    "plan.json --to nothing": "--to: 'nothing' is unknown; for placement there are: ",
    "c.json --to sglang": "--to: sglang does not take cache; for cache there are: lp, mps",
    "plan.json --to vllm": "--to: vLLM itself reads no map of experts; its plugin for Ascend does "
    "(moeopt plan --ep-size ... --to vllm-ascend); for placement there are: ktransformers, "
    "llama.cpp-profile, sglang, ik_llama.cpp, llama.cpp, lp, mps",
    "'some name.json' --to sglang": "--to: sglang holds a plan: give a solution, not an instance",
    "plan.json --to sglang": "--model: is missing",
    "plan.json --to sglang --model no": "model: 'no' is neither a file nor",
    f"{WITH_MODEL} sglang --out no/m.json": "--out: no is not a folder",
    f"{WITH_MODEL} sglang --out m.txt": "--out: m.txt must end in .json",
    f"{WITH_MODEL} ktransformers --out m.zip": "--out: m.zip must end in .pt",
    "'some name.json' --to lp --instance a": "--instance: some name.json is an instance itself",
    "plan.json --to lp --time-limit 0": "time limit: must be a positive",
    f"{WITH_MODEL} llama.cpp --cache-type q9": "--cache-type: must be one of f32, f16, q8_0",
    f"{WITH_MODEL} llama.cpp --ep-size 2": "--ep-size: llama.cpp has no such option; it has: --co",
    f"{WITH_MODEL} sglang --ep-size 0": "--ep-size: must be from 1 to 4096, not 0",
    "nowhere.json --to lp": "nowhere.json: cannot be read",
}


@pytest.mark.parametrize(("words", "reason"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, reason: str
) -> None:
    """Exit code 2, and nothing is written."""
    moeopt.save(random_cache(0), folder / "c.json")
    before = sorted(folder.iterdir())
    assert refused(capsys, *shlex.split(words)).startswith(reason)
    assert sorted(folder.iterdir()) == before


def test_binary_files_do_not_go_to_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not even where their bytes happen to be text."""
    words = ("plan.json", "--to", "ktransformers", "--model", "model.json")
    for more in ((), ("--json",)):
        message = refused(capsys, *words, *more)
        assert message == "--out: is missing: the file is no text"


def test_invalid_plans_are_not_handed_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the checker; nor is a plan of another instance."""
    everything = [list(range(5))] * 4
    moeopt.save(
        {"problem": "placement", "instance": GIVEN.name, "gpu": everything}, folder / "plan.json"
    )
    words = ("plan.json", "--to", "sglang", "--model", "model.json")
    assert refused(capsys, *words).startswith("the solution is invalid: PL-C1: ")
    moeopt.save({"problem": "placement", "instance": "b", "gpu": []}, folder / "plan.json")
    message = refused(capsys, *words, "--instance", "some name.json")
    assert message == f"instance: the solution is for 'b', not for '{GIVEN.name}'"


def test_a_form_without_plans_has_its_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proven infeasible: 3."""
    moeopt.save(instance(2, 7, fill=True), folder / "some name.json")
    filled = {"problem": "placement", "instance": GIVEN.name, "gpu": [[0, 1], [0, 1], [0, 1], [0]]}
    moeopt.save(filled, folder / "plan.json")
    words = ("plan.json", "--to", "llama.cpp", "--model", "model.json")
    assert refused(capsys, *words, code=3).endswith(": infeasible")


def test_help_has_the_targets_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Each by its own words, beside those of every target."""
    assert run(["export", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for target in all_targets().values():
        for option in target.options:
            assert f"{option.flag} " in said
    assert "--time-limit" in said


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, problem, what it is, and its options; each says what it holds and what is lost."""
    assert run(["list", "targets"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == list(all_targets())
    assert {line[1] for line in lines} == {
        "placement", "placement, replication", "placement, split", "any problem",
    }  # fmt: skip
    assert {line[0]: line[3] for line in lines}[
        "sglang"
    ] == "--ep-size, --redundant-experts, --onto, --model-class"
    for target in all_targets().values():
        assert target.export.__doc__
        assert target.holds
        assert target.loses
