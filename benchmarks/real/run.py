"""Measure a random mixture-of-experts model with llama.cpp here, and compare with predictions.

    python benchmarks/real/run.py [prepare|measure|compare ...] [--work DIR] [--out DIR] [...]

Without a step, all three. README.md says what they do, and how to read the table.
"""

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.harness.machine import machine  # noqa: E402
from benchmarks.real import compare, llama_cpp  # noqa: E402
from benchmarks.real.quiet import undisturbed  # noqa: E402
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
    parser.add_argument("--patience", type=float, default=30, help="s to wait for a quiet moment")
    parser.add_argument("--attempts", type=int, default=3, help="if others disturbed a run")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"STEP: must be {', '.join(STEPS)}, not {', '.join(sorted(unknown))}")
    steps = options.steps or STEPS
    if "prepare" in steps:
        prepare(options.work, options.jobs)
    if "measure" in steps:
        measure(options.work, options)
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


def measure(work: Path, options: argparse.Namespace) -> None:
    """Describe the machine as so many threads see it, and run llama-bench at every setting.

    All of it in rounds, so that a busy minute does not fall on one setting alone.
    """
    tools, measured = llama_cpp.Tools(work), work / "measured"
    measured.mkdir(exist_ok=True)
    for old in measured.glob("*.*"):
        old.unlink()
    date, others = datetime.now(UTC), {}
    for turn in range(1, options.rounds + 1):
        for threads in options.threads:
            name = f"machine-t{threads}-round{turn}"
            detect = partial(_detect, measured / f"{name}.json", threads)
            _, others[name] = undisturbed(detect, options.patience, options.attempts)
            print(f"{name}: others {others[name]}", file=sys.stderr)
        for setting in Setting.all(options.threads):
            name, model = f"{setting}-round{turn}", work / "models" / setting.model
            given = (tools, model, setting.threads, options.tokens, options.repetitions)
            bench = partial(llama_cpp.bench, *given)
            rows, others[name] = undisturbed(bench, options.patience, options.attempts)
            _save(measured / f"{name}.json", rows)
            print(f"{name}: others {others[name]}", file=sys.stderr)
    about = {"date": f"{date:%Y-%m-%d}", "machine": machine(), "others": others}
    about |= {key: getattr(options, key) for key in ("threads", "tokens", "rounds")}
    _save(measured / "about.json", about)


def _detect(file: Path, threads: int) -> None:
    command = [sys.executable, "-m", "moeopt", "machine", "detect", "--out", str(file)]
    llama_cpp.run([*command, "--set", f"cpu.threads={threads}"], threads)


def _save(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
