"""Our command lines through the runtimes' own parsers, built: read without an error, as meant."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import moeopt
from tests.exporters.llama_cpp_arguments import ALONE, CACHES
from tests.exporters.placements import instance, random_plan, shape
from tests.planner.small_plans import planned
from tests.planner.test_plan_split import by_tensor, random_split
from tests.rooms.cli import run
from tests.rooms.exporters import OptionValue
from tests.rooms.planner import hand_over
from tests.rooms.sim import CACHE_TYPES
from tests.runtimes.consumers import LlamaCpp, llama_cpp

pytestmark = pytest.mark.runtimes

MACHINES = (
    "rtx4090+ryzen-am5", "rtx3090+epyc-7002", "none+epyc-9004", "none+2xepyc-9004", "dgx-spark",
    "ryzen-ai-max-395", "rtx4090+2xepyc-9004", "2xrtx3090+epyc-7002", "rtx5090+rtx4090+epyc-9005",
    "4xrtx3090+2xepyc-7002",
)  # fmt: skip
MODELS = ("glm-4.5-air", "deepseek-v2-lite", "gpt-oss-120b")
ROOMS = ("", "--context 32k --kv-bits q8_0", "--context 9000 --kv-bits 4.5")
PREDICTED = (
    *ROOMS, "--ubatch 4096", "--n-cpu-moe 0", "--n-cpu-moe 7 --ubatch 64", "--context 128k",
)  # fmt: skip
PLANNED = (
    *ROOMS, "--ubatch 4096 --numa mirrored", "--prompt-tokens 4000 --numa isolate",
    "--granularity tensor",
)  # fmt: skip

NUMBERS = {
    "-sm": ("none", "layer", "row", "tensor"),
    "--numa": ("", "distribute", "isolate", "numactl"),
}
"""Values by llama.cpp's numbers for them."""

DEFAULTS = {
    "-m": "", "-ngl": "-1", "-c": "0", "-b": "2048", "-ub": "512", "-fa": "auto", "-ctk": "f16",
    "-ctv": "f16", "-sm": "layer", "--numa": "", "--load-mode": "auto", "-ts": "", "--device": "",
    "-ot": "",
}  # fmt: skip
OF_IK = {name: value for name, value in DEFAULTS.items() if name != "--load-mode"} | {
    "-m": "models/7B/ggml-model-f16.gguf", "-fa": "on", "-mla": "3", "--no-mmap": "0",
}  # fmt: skip
ALONE_OF_BOTH = (*ALONE, "--no-mmap")
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


def read(build: LlamaCpp, folder: Path, lines: list[list[str]]) -> tuple[str, list[dict[str, str]]]:
    """Return the version, and what its parser says of each line; empty where it refuses it."""
    program = build.compiled(Path(__file__).with_name("children") / build.parser, folder)
    done = subprocess.run(
        [program, "8"],
        input="".join("\t".join(words) + "\n" for words in lines),
        env={"HOME": str(folder)},  # no LLAMA_ARG_... of the environment, no settings of the user
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    version, *said = done.stdout.splitlines()
    said = [one for one in said if one == "refused" or one.startswith("-m\t")]
    assert len(said) == len(lines), done.stderr[-2000:]
    fields = [one.split("\t") for one in said]
    return f"{version}\n{done.stderr}", [
        dict(zip(words[::2], words[1::2], strict=True)) if len(words) > 1 else {}
        for words in fields
    ]


@pytest.mark.parametrize("runtime", ["llama.cpp", "ik_llama.cpp"])
def test_every_command_line_is_read_as_meant(
    runtime: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of `predict`, `plan`, the exports, and the pages; every value is what the line says."""
    build = llama_cpp(runtime)
    sources = {
        "predict and plan": set(printed(capsys, runtime)),
        "exports": set(exported(tmp_path, runtime)),
        "pages": set(of_pages(root)) if runtime == "llama.cpp" else set(),
    }
    lines = [shlex.split(line) for line in sorted(set().union(*sources.values()))]
    version, found = read(build, tmp_path, lines)
    refused = [shlex.join(line) for line, one in zip(lines, found, strict=True) if not one]
    assert not refused, f"{version}{refused}"
    for line, one in zip(lines, found, strict=True):
        assert one == meant(line, runtime) | {"-t": one["-t"]}, line
        assert "-t" not in line or one["-t"] == line[line.index("-t") + 1]
    used = {word for line in lines for word in line}
    if runtime == "llama.cpp":
        assert used >= {*DEFAULTS, "-t", "--n-cpu-moe", "--cpu-moe"}
    else:
        assert used >= {*OF_IK, "-t"}
    with capsys.disabled():
        counts = ", ".join(f"{len(of)} of {name}" for name, of in sources.items())
        print(f"\n{runtime} {version.splitlines()[0]}: {len(lines)} lines read: {counts}")


@pytest.mark.parametrize(
    ("runtime", "more"),
    [
        ("llama.cpp", ["--no-mmap", "-mla 3", "-ctk q9_0", "--device CUDA8", "--load-mode fast"]),
        ("ik_llama.cpp", ["-fmoe", "--load-mode none", "-sm row"]),
    ],
)
def test_it_refuses_what_is_wrong(runtime: str, more: list[str], tmp_path: Path) -> None:
    """Flags of others, values that are none: the test above can fail."""
    wrong = [
        "-ngl many", "-ot blk.1=CUDA9", "-sm columns", "--numa mirrored", "--n-cpu-moe -1",
        "-fa maybe", *more,
    ]  # fmt: skip
    _, found = read(llama_cpp(runtime), tmp_path, [shlex.split(line) for line in wrong])
    assert [line for line, one in zip(wrong, found, strict=True) if one] == []


def test_our_own_matcher_knows_its_values() -> None:
    """The types of caches that the tests without llama.cpp allow are all of its."""
    text = (llama_cpp().sources / "common" / "arg.cpp").read_text()
    kinds = re.search(r"kv_cache_types = \{(.*?)\}", text, re.DOTALL)
    assert kinds
    assert {kind.lower() for kind in re.findall(r"GGML_TYPE_(\w+)", kinds[1])} == set(CACHES)


def meant(words: list[str], runtime: str) -> dict[str, str]:
    """Return the value of each flag as the runtime has to hold it, by a line's own words."""
    of_ik = runtime == "ik_llama.cpp"
    found, overrides, at = dict(OF_IK if of_ik else DEFAULTS), [], 0
    while at < len(words):
        name = words[at]
        value = "1" if name in ALONE_OF_BOTH else words[at + 1]
        at += 1 + (name not in ALONE_OF_BOTH)
        if name == "-ot":
            overrides += value.split(",")
        elif name == "--cpu-moe":
            overrides.append(f"{EXPERTS}=CPU")
        elif name == "--n-cpu-moe":
            overrides += [rf"blk\.{block}{EXPERTS}=CPU" for block in range(int(value))]
        elif name != "-t":
            found[name] = value
    found["-ot"] = "".join(f"{one}," for one in overrides)
    if not of_ik:
        found["-fa"] = {"on": "enabled", "off": "disabled"}.get(found["-fa"], found["-fa"])
        found["--device"] += ",," if found["--device"] else ""
    for name, values in NUMBERS.items():
        found[name] = str(values.index(found[name]))
    shares = [f"{float(share):g}" for share in found["-ts"].split(",") if share]
    found["-ts"] = ",".join([*shares, *["0"] * (16 - len(shares))])
    return found


def printed(capsys: pytest.CaptureFixture[str], runtime: str) -> Iterator[str]:
    """Yield what `predict` and `plan` print: machines, models, contexts, types of caches."""
    asked = [f"predict --model {model} {more}" for model, more in product(MODELS, PREDICTED)]
    asked += [
        f"plan --work-limit 2 --model {model} {more}" for model, more in product(MODELS, PLANNED)
    ]
    for machine, one in product(MACHINES, asked):
        run(shlex.split(f"{one} --machine {machine} --bits Q4_K_M --runtime {runtime}"))
        yield from of_text(capsys.readouterr().out)


def of_text(text: str) -> Iterator[str]:
    """Yield the command lines in what is printed, without the program."""
    yield from re.findall(r"^ *llama-server (.*)$", text, re.MULTILINE)


def exported(folder: Path, runtime: str) -> Iterator[str]:
    """Yield what the exporters write, with and without options, and a plan's folder."""
    options: list[dict[str, OptionValue]] = [{}]
    options += [
        {"context": 32768, "cache_type": cache, "ubatch": ubatch, "threads": 16}
        for cache, ubatch in product(CACHE_TYPES, (512, 4096))
    ]
    for seed, one in enumerate(options):
        given = instance(seed)
        plan = random_plan(given, seed)
        made = moeopt.export(plan, given, to=runtime, model=shape(), options=one)
        yield from filter(None, (made.text, made.same_as))
        for split, solution in (random_split(seed), by_tensor(seed)):
            yield moeopt.export(solution, split, to=runtime, options=one).text
    hand_over(planned(), folder)
    yield (folder / f"residency-{runtime}.txt").read_text()
    for comparison in planned().comparisons:
        if comparison.default and comparison.default.runtime == runtime:
            yield comparison.default.flags


def of_pages(root: Path) -> Iterator[str]:
    """Yield the complete command lines that the documentation shows."""
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        yield from (line for line in of_text(page.read_text()) if "$(" not in line)
