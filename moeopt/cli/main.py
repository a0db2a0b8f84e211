"""The ``moeopt`` command: its subcommands, and one place where errors become exit codes.

Everything heavy is imported inside the subcommands, so that ``moeopt --help`` answers at once.
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TextIO

import typer

from moeopt.cli import (
    certificate,
    check,
    explain,
    export,
    gantt,
    gap,
    generate,
    holdout,
    listing,
    machine,
    pareto,
    plan,
    predict,
    report,
    simulate,
    solve,
    trace,
)
from moeopt.cli.options import BAD_INPUT, DONE, INTERRUPTED, NO_SOLUTION, print_error
from moeopt.core.errors import MoeoptError, MoeoptWarning
from moeopt.core.native_output import drop_native_stdout
from moeopt.core.signals import STOPPING
from moeopt.core.wording import TerminalStream

NUMBERS = {"integer": "a whole number", "number": "a number"}
"""What an option's text should have been, by its type."""

TESTED_ORTOOLS = ("9.15",)
"""The releases of OR-tools on which all tests have run: what it proves differs between them.

benchmarks/results/ortools_versions.md has what others say of instances that 9.15 is wrong about.
"""

SHOWN = ("numpy", "pulp", "pydantic", "scipy")
"""What else ``--version`` names."""


def build_app(argv: list[str]) -> typer.Typer:
    """Return the application; `generate` gets its subcommands only where they are asked for."""
    app = typer.Typer(
        help="Optimal placements and schedules for Mixture-of-Experts inference, with proof.",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.command("solve")(solve.solve_command)
    app.command("check")(check.check_command)
    app.command("gap")(gap.gap_command)
    app.command("report")(report.report_command)
    app.command("holdout")(holdout.holdout_command)
    app.command("gantt")(gantt.gantt_command)
    app.command("explain")(explain.explain_command)
    app.command("pareto")(pareto.pareto_command)
    app.command("list")(listing.list_command)
    app.command("simulate")(simulate.simulate_command)
    app.command("export")(export.build_command(complete="export" in argv[:1]))
    app.command("plan")(plan.plan_command)
    app.command("predict")(predict.predict_command)
    app.command("calibrate")(machine.calibrate_command)
    app.command("profile")(machine.profile_command)
    app.command("warm")(solve.warm_command)
    app.add_typer(generate.build_app(argv[:2] if argv[:1] == ["generate"] else []), name="generate")
    app.add_typer(trace.build_app(), name="trace")
    app.add_typer(machine.build_app(), name="machine")
    app.add_typer(certificate.build_app(), name="certificate")
    app.callback(invoke_without_command=True)(_options)
    return app


def run(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code; errors are one line on stderr."""
    words = list(argv)  # a tuple of words is not equal to a list of them
    return run_app(build_app(words), words, "moeopt")


def main(argv: Sequence[str] | None = None, run: Callable[[Sequence[str]], int] = run) -> None:
    """Run a command line and leave with its exit code; stdout is for results alone."""
    drop_native_stdout()
    sys.stdout, sys.stderr = TerminalStream(sys.stdout), TerminalStream(sys.stderr)
    warnings.showwarning = _show_warning
    received: list[int] = []

    def end(number: int, _: object) -> None:
        """End as after Ctrl-C: what is done is kept, and a line says so."""
        received.append(number)
        raise KeyboardInterrupt

    for name in STOPPING:
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:  # nohup, or a background
            continue
        with suppress(ValueError):  # only the main thread may
            signal.signal(number, end)
    code = run(sys.argv[1:] if argv is None else argv)
    stopped = received and code in (DONE, NO_SOLUTION, INTERRUPTED)
    sys.exit(128 + received[0] if stopped else code)


def run_app(app: typer.Typer, argv: Sequence[str], name: str) -> int:
    """Run an application and return its exit code; errors are one line on stderr."""
    try:
        code = app(list(argv), prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except MoeoptError as error:
        return _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        return _fail(_in_words(error, argv), BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as in `moeopt list ... | head`
        _drop_output()
        return 0
    except OSError as error:  # a full disk, most often that of our own output
        _drop_output()
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", BAD_INPUT)
    except MemoryError:
        return _fail("this machine's memory is too small for it", NO_SOLUTION)
    return code or 0


def _drop_output() -> None:
    """Let nobody have what was not written yet, or leaving would fail with it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_words(error: typer.TyperException, argv: Sequence[str]) -> str:
    """Return what is wrong with a command line, and what would be right."""
    text = error.format_message().replace("Value error, ", "")  # pydantic's, which Typer asks
    if not isinstance(error, typer.BadParameter) or error.param is None or error.ctx is None:
        return text
    if text.startswith("Missing"):
        asked = getattr(error.param, "help", None)
        said = f": {asked.removesuffix('.')}" if asked else ""
        return f"{text.partition('.')[0]}{said} ({error.ctx.command_path} --help)"
    kinds = [kind for word, kind in NUMBERS.items() if f"Input should be a valid {word}" in text]
    flags = [flag for flag in error.param.opts if flag in argv[:-1]]
    if not kinds or not flags:
        return text
    return f"{flags[0]}: must be {kinds[0]}, not {argv[argv.index(flags[0]) + 1]!r}"


def _fail(message: str, code: int) -> int:
    print_error(message)
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning of ours as one line; of others, as Python does."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    if issubclass(category, MoeoptWarning):
        text = f"moeopt: warning: {' '.join(str(message).splitlines())}\n"
    (file or sys.stderr).write(text)


def versions() -> str:
    """Return the package's version, and those of what its answers rest on, without importing it."""
    from importlib.metadata import version
    from platform import python_version

    ortools = version("ortools")
    within = ".".join(ortools.split(".")[:2]) in TESTED_ORTOOLS
    tested = "tested: " if within else "NOT TESTED with this one, only with "
    first = f"moeopt {version('moeopt')}, Python {python_version()}"
    others = ", ".join(f"{name} {version(name)}" for name in SHOWN)
    return f"{first}, OR-tools {ortools} ({tested}{', '.join(TESTED_ORTOOLS)})\n{others}"


def _options(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print versions and leave."),
) -> None:
    if version:
        print(versions())
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(BAD_INPUT)
