"""Measure a random mixture-of-experts model with llama.cpp here, and compare with predictions.

    python benchmarks/real/run.py [prepare|measure|compare ...] [--work DIR] [--out DIR]

Without a step, all three. README.md says what they do, and how to read the table.
"""

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.harness.machine import machine  # noqa: E402
from benchmarks.real import compare, llama_cpp  # noqa: E402
from benchmarks.real.setting import TOP_KS, WIDTHS, Setting  # noqa: E402

STEPS = ("prepare", "measure", "compare")

WORK = ROOT / "build" / "real"
"""By default; git ignores ``build/``."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--work", type=Path, default=WORK, help="work folder, about 4 GB")
    parser.add_argument("--out", type=Path, help="folder for results.json and results.md")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--tokens", type=int, default=32, help="decoded in each repetition")
    parser.add_argument("--repetitions", type=int, default=5, help="of each setting in a round")
    parser.add_argument("--rounds", type=int, default=3, help="how often all settings are run")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"STEP: must be {', '.join(STEPS)}, not {', '.join(sorted(unknown))}")
    steps = options.steps or STEPS
    if "prepare" in steps:
        prepare(options.work, options.jobs)
    if "measure" in steps:
        given = (options.tokens, options.repetitions, options.rounds)
        measure(options.work, options.threads, *given)
    if "compare" in steps:
        document = compare.compare(options.work)
        markdown = compare.to_markdown(document)
        print(markdown)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / "results.json").write_text(json.dumps(document, indent=1) + "\n")
            (options.out / "results.md").write_text(markdown)


def prepare(work: Path, jobs: int) -> None:
    """Build llama-bench and write the models."""
    tools = llama_cpp.prepare(work, jobs)
    script = str(Path(__file__).with_name("random_model.py"))
    top_ks = [str(top_k) for top_k in TOP_KS]
    for width in WIDTHS:
        models = str(work / "models")
        llama_cpp.run([str(tools.python), script, models, "--width", width, "--top-k", *top_ks])


def measure(
    work: Path, thread_counts: list[int], tokens: int, repetitions: int, rounds: int
) -> None:
    """Describe the machine as so many threads see it, and run llama-bench at every setting.

    All of it in rounds, so that a busy minute does not fall on one setting alone.
    """
    tools, measured = llama_cpp.Tools(work), work / "measured"
    measured.mkdir(exist_ok=True)
    for old in measured.glob("*.*"):
        old.unlink()
    date, load = datetime.now(UTC), [_load()]
    settings = Setting.all(thread_counts)
    for turn in range(1, rounds + 1):
        for threads in thread_counts:
            print(f"round {turn} of {rounds}: machine, {threads} threads", file=sys.stderr)
            file = str(measured / f"machine-t{threads}-round{turn}.json")
            command = [sys.executable, "-m", "moeopt", "machine", "detect", "--out", file]
            llama_cpp.run([*command, "--set", f"cpu.threads={threads}"], threads)
        for setting in settings:
            print(f"round {turn} of {rounds}: {setting}", file=sys.stderr)
            model = work / "models" / setting.model
            rows = llama_cpp.bench(tools, model, setting.threads, tokens, repetitions)
            _save(measured / f"{setting}-round{turn}.json", rows)
        load.append(_load())
    about = {"date": f"{date:%Y-%m-%d}", "machine": machine(), "load": load}
    about |= {"threads": thread_counts, "tokens": tokens, "rounds": rounds}
    _save(measured / "about.json", about)


def _load() -> float:
    """Return how many processes wanted to run in the last minute."""
    return round(os.getloadavg()[0], 2)


def _save(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
