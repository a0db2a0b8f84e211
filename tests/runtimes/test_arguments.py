"""Our command lines through llama.cpp's own parser, built: read without an error, and as meant."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import moeopt
from moeopt.cli.main import run
from moeopt.exporters.exported import OptionValue
from moeopt.planner.hand_over import hand_over
from moeopt.sim.machines.runtimes.memory import CACHE_TYPES
from tests.exporters.llama_cpp_arguments import ALONE, CACHES, VALUES
from tests.exporters.placements import instance, random_plan, shape
from tests.planner.small_plans import planned
from tests.planner.test_plan_split import random_split
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
PLANNED = (*ROOMS, "--ubatch 4096 --numa mirrored", "--prompt-tokens 4000 --numa isolate")

ONLY_IK = {"-mla": 2, "--no-mmap": 1}
"""Flags of ik_llama.cpp that llama.cpp has not -> how many words they are."""

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
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"


@pytest.fixture(scope="module")
def build() -> LlamaCpp:
    """Return what ``LLAMA_CPP_BUILD`` names, or skip the test."""
    return llama_cpp()


def read(build: LlamaCpp, folder: Path, lines: list[list[str]]) -> tuple[str, list[dict[str, str]]]:
    """Return the version, and what its parser says of each line; empty where it refuses it."""
    program = build.compiled(Path(__file__).with_name("children") / "llama_cpp_parse.cpp", folder)
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


def test_every_command_line_is_read_as_meant(
    build: LlamaCpp, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of `predict`, `plan`, the exports, and the pages; every value is what the line says."""
    sources = {
        "predict and plan": set(printed(capsys)),
        "exports": set(exported(tmp_path)),
        "pages": set(of_pages(root)),
    }
    lines, dropped = [], set()
    for line in sorted(set().union(*sources.values())):
        words, kept = shlex.split(line), []
        while words:
            count = ONLY_IK.get(words[0], 0)
            dropped |= set(words[: min(count, 1)])
            kept += words[: 1 - min(count, 1)]
            words = words[count or 1 :]
        lines.append(kept)
    version, found = read(build, tmp_path, lines)
    refused = [shlex.join(line) for line, one in zip(lines, found, strict=True) if not one]
    assert not refused, f"{version}{refused}"
    for line, one in zip(lines, found, strict=True):
        assert one == meant(line) | {"-t": one["-t"]}, line
        assert "-t" not in line or one["-t"] == line[line.index("-t") + 1]
    used = {word for line in lines for word in line if word in VALUES or word in ALONE}
    assert used >= {*DEFAULTS, "-t", "--n-cpu-moe", "--cpu-moe"}
    assert dropped == set(ONLY_IK)
    with capsys.disabled():
        counts = ", ".join(f"{len(of)} of {name}" for name, of in sources.items())
        print(f"\n{version.splitlines()[0]}: {len(lines)} different lines read: {counts}")


def test_it_refuses_what_is_wrong(build: LlamaCpp, tmp_path: Path) -> None:
    """Flags of others, values that are none: the test above can fail."""
    wrong = [
        "--no-mmap", "-fmoe", "-ngl", "-ngl many", "-ot blk.1=CUDA9", "-ctk q9_0", "-sm columns",
        "--device CUDA8", "--numa mirrored", "--load-mode fast", "--n-cpu-moe -1", "-fa maybe",
    ]  # fmt: skip
    _, found = read(build, tmp_path, [shlex.split(line) for line in wrong])
    assert [line for line, one in zip(wrong, found, strict=True) if one] == []


def test_our_own_matcher_knows_its_values(build: LlamaCpp) -> None:
    """The types of caches that the tests without llama.cpp allow are all of its."""
    text = (build.sources / "common" / "arg.cpp").read_text()
    kinds = re.search(r"kv_cache_types = \{(.*?)\}", text, re.DOTALL)
    assert kinds
    assert {kind.lower() for kind in re.findall(r"GGML_TYPE_(\w+)", kinds[1])} == set(CACHES)


def meant(words: list[str]) -> dict[str, str]:
    """Return the value of each flag as llama.cpp has to hold it, by a line's own words."""
    found, overrides, at = dict(DEFAULTS), [], 0
    while at < len(words):
        name = words[at]
        value = "" if name in ALONE else words[at + 1]
        at += 1 + (name not in ALONE)
        if name == "-ot":
            overrides += value.split(",")
        elif name == "--cpu-moe":
            overrides.append(f"{EXPERTS}=CPU")
        elif name == "--n-cpu-moe":
            overrides += [rf"blk\.{block}{EXPERTS}=CPU" for block in range(int(value))]
        elif name != "-t":
            found[name] = value
    found["-ot"] = "".join(f"{one}," for one in overrides)
    found["-fa"] = {"on": "enabled", "off": "disabled"}.get(found["-fa"], found["-fa"])
    found["--device"] += ",," if found["--device"] else ""
    for name, values in NUMBERS.items():
        found[name] = str(values.index(found[name]))
    shares = [f"{float(share):g}" for share in found["-ts"].split(",") if share]
    found["-ts"] = ",".join([*shares, *["0"] * (16 - len(shares))])
    return found


def printed(capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Yield what `predict` and `plan` print: machines, models, contexts, types of caches."""
    asked = [f"predict --model {model} {more}" for model, more in product(MODELS, PREDICTED)]
    asked += [f"{one} --runtime ik_llama.cpp" for one in asked[::2]]
    asked += [
        f"plan --work-limit 2 --model {model} {more}" for model, more in product(MODELS, PLANNED)
    ]
    for machine, one in product(MACHINES, asked):
        run(shlex.split(f"{one} --machine {machine} --bits Q4_K_M"))
        yield from of_text(capsys.readouterr().out)


def of_text(text: str) -> Iterator[str]:
    """Yield the command lines in what is printed, without the program."""
    yield from re.findall(r"^ *llama-server (.*)$", text, re.MULTILINE)


def exported(folder: Path) -> Iterator[str]:
    """Yield what the exporters write, with and without options, and a plan's folder."""
    options: list[dict[str, OptionValue]] = [{}]
    options += [
        {"context": 32768, "cache_type": cache, "ubatch": ubatch, "threads": 16}
        for cache, ubatch in product(CACHE_TYPES, (512, 4096))
    ]
    for to, (seed, one) in product(("llama.cpp", "ik_llama.cpp"), enumerate(options)):
        given = instance(seed)
        made = moeopt.export(random_plan(given, seed), given, to=to, model=shape(), options=one)
        yield from filter(None, (made.text, made.same_as))
        split, solution = random_split(seed)
        yield moeopt.export(solution, split, to=to, options=one).text
    hand_over(planned(), folder)
    for name in ("llama.cpp", "ik_llama.cpp"):
        yield (folder / f"residency-{name}.txt").read_text()
    for comparison in planned().comparisons:
        if comparison.default and comparison.default.runtime == "llama.cpp":
            yield comparison.default.flags


def of_pages(root: Path) -> Iterator[str]:
    """Yield the complete command lines that the documentation shows."""
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        yield from (line for line in of_text(page.read_text()) if "$(" not in line)
