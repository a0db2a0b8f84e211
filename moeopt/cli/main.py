"""The ``moeopt`` command: its subcommands, and one place where errors become exit codes.

A subcommand is imported when it is used, so that ``moeopt --help`` answers at once.
"""

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from textwrap import wrap
from typing import Annotated, Any, Literal, TextIO, get_args

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownOptionError,
    ValidationError,
)

from moeopt.cli.commands import COMMANDS, GROUPS, HEADINGS
from moeopt.cli.help import PlainHelp
from moeopt.cli.options import BAD_INPUT, DONE, INTERRUPTED, NO_SOLUTION, group, print_error
from moeopt.core.errors import InputError, MoeoptError, MoeoptWarning
from moeopt.core.native_output import drop_native_stdout
from moeopt.core.signals import STOPPING, interrupts_kept
from moeopt.core.wording import TerminalStream, meant, shown, suggested

TESTED_ORTOOLS = ("9.15",)
"""The releases of OR-tools on which all tests have run: what it proves differs between them.

benchmarks/results/ortools_versions.md has what others say of instances that 9.15 is wrong about.
"""

SHOWN = ("numpy", "pulp", "pydantic", "scipy")
"""What else ``--version`` names."""


Shell = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = get_args(Shell)
"""Shells that completion can be installed for."""

COLLECTED_AFTER = (200_000, 20, 100)
"""New objects until garbage is looked for, and how often it is also looked for among older ones.

Imports and instances make many objects that stay, and cycles are few: at the usual 700, a tenth of
the time of a short command is spent looking. (A plan for two GPUs makes 110 thousand.)
"""

LOG_LEVEL = "MOEOPT_LOG"
"""Environment variable: INFO or DEBUG writes the library's log to stderr."""

RENAMED = {
    ("gap", "--settlements"): "moeopt sensitivity",
    ("gap", "--points"): "moeopt sensitivity --points",
    ("gap", "--traces"): "moeopt sensitivity --traces",
    ("gap", "--figures"): "moeopt.gap(...).plot()",
    ("gap", "--latex"): "moeopt.gap(...).to_latex()",
    ("", "library"): "python -m instances.tools",
}
"""What words of a command line were called before version 2."""


def build_app() -> App:
    """Return the application; its commands are imported when they are used."""
    app = new_app("moeopt", "Optimal placements and schedules for Mixture-of-Experts inference.")
    # Negative keys: commands come before options, whose headings count from 0.
    headings = {
        name: Group(name, sort_key=place - len(HEADINGS)) for place, name in enumerate(HEADINGS)
    }
    parents: dict[str, App] = {}
    for place, command in enumerate(COMMANDS):
        *outer, name = command.name.split()
        where = f"moeopt.cli.{command.place}"
        if not outer:
            told: dict[str, Any] = {"help": command.about, "group": headings[command.heading]}
            told["sort_key"] = place
            if not command.place.endswith(":app"):
                told["help_epilogue"] = example(command.example)
            app.command(where, name=name, **told)
            continue
        if (parent := parents.get(outer[0])) is None:
            heading, about = GROUPS[outer[0]]
            parent = parents[outer[0]] = new_app(
                outer[0], about, group=headings[heading], sort_key=place
            )
            app.command(parent)
        parent.command(
            where,
            name=name,
            help=command.about,
            sort_key=place,
            help_epilogue=example(command.example),
        )

    @app.default
    def root(
        *,
        version: Annotated[bool, Parameter(help="Print versions and leave.")] = False,
        install_completion: Annotated[
            Shell | None, Parameter(help="Install completion of words for a shell and leave.")
        ] = None,
    ) -> int:
        if version:
            print(versions())
        elif install_completion is not None:
            print(app.install_completion(shell=install_completion))
        else:
            app.help_print([])
            return BAD_INPUT
        return DONE

    return app


def new_app(name: str, about: str, **more: Any) -> App:
    """Return an application or a group of commands whose help and errors are like all others'."""
    app = App(
        name=name,
        help=about,
        help_format="plaintext",
        help_formatter=PlainHelp(),
        version_flags=(),
        suppress_keyboard_interrupt=False,
        result_action="return_value",
        group_parameters=group("Options"),
        group_arguments=group("Arguments"),
        default_parameter=Parameter(negative=(), allow_repeating=True),
        **more,
    )
    app["--help"].group = group("Options")
    return app


def example(line: str) -> str:
    """Return the end of a help: a command line that shows the command at work."""
    lines = wrap(line, 74, break_long_words=False, break_on_hyphens=False)
    return "Example:\n  " + " \\\n    ".join(lines)


def run(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code; errors are one line on stderr."""
    return run_app(build_app(), argv)


def main(argv: Sequence[str] | None = None, run: Callable[[Sequence[str]], int] = run) -> None:
    """Run a command line and leave with its exit code; stdout is for results alone."""
    gc.set_threshold(*COLLECTED_AFTER)
    drop_native_stdout()
    sys.stdout, sys.stderr = TerminalStream(sys.stdout), TerminalStream(sys.stderr)
    warnings.showwarning = _show_warning
    received: list[int] = []

    def end(number: int, _: object) -> None:
        """End as after Ctrl-C: what is done is kept, and a line says so."""
        received.append(number)
        raise KeyboardInterrupt

    def lost(unraisable: "sys.UnraisableHookArgs") -> None:
        """Send a signal again that came where native code drops exceptions, as in a callback."""
        if received and issubclass(unraisable.exc_type, KeyboardInterrupt):
            # From another thread: the handler must not run in this hook, which drops them too.
            threading.Timer(0.01, _send, received[-1:]).start()
        else:
            sys.__unraisablehook__(unraisable)

    sys.unraisablehook = lost
    for name in STOPPING:
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:  # nohup, or a background
            continue
        with suppress(ValueError):  # only the main thread may
            signal.signal(number, end)
    try:
        log_to_stderr(os.environ.get(LOG_LEVEL, ""))
    except InputError as error:
        sys.exit(_fail(str(error), BAD_INPUT))
    code = run(sys.argv[1:] if argv is None else argv)
    gc.freeze()  # all ends with the process: not to be looked through again at its exit
    stopped = received and code in (DONE, NO_SOLUTION, INTERRUPTED)
    sys.exit(128 + received[0] if stopped else code)


def _send(number: int) -> None:
    """Send a signal to the main thread, which may sleep."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


def log_to_stderr(level: str) -> None:
    """Write the library's log to stderr from a level on, a line each; nothing without a level.

    Raises
    ------
    InputError
        If it is neither INFO nor DEBUG.
    """
    if not level:
        return
    if level.upper() not in ("INFO", "DEBUG"):
        raise InputError(f"must be INFO or DEBUG, not {shown(level)}", field=LOG_LEVEL)
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logger = logging.getLogger("moeopt")
    logger.addHandler(handler)
    logger.setLevel(level.upper())


def run_app(app: App, argv: Sequence[str]) -> int:
    """Run an application and return its exit code; errors are one line on stderr."""
    words = list(argv)
    try:
        with interrupts_kept():
            code = app(words, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except MoeoptError as error:
        return _fail(str(error), error.exit_code)
    except CycloptsError as error:
        return _fail(str(usage_error(app, error, words)), BAD_INPUT)
    except KeyboardInterrupt:
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
    """Discard output that was not written yet; else writing it at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def usage_error(app: App, error: CycloptsError, argv: list[str]) -> InputError:
    """Return what is wrong with a command line, and what would be right."""
    names, apps, rest = app.parse_commands(argv)
    command = " ".join([app.name[0], *names])
    asked = error.argument
    if isinstance(error, UnknownOptionError | MissingArgumentError):
        flags = [name for one in apps[-1].assemble_argument_collection() for name in one.names]
        words = list(error.unused_tokens or ())
        if isinstance(error, UnknownOptionError):
            words = [error.token.keyword or error.token.value]
        asked_for = (word.partition("=")[0] for word in words if word.startswith("-"))
        for flag in (one for one in asked_for if one not in flags):
            if (now := RENAMED.get((" ".join(names), flag))) is not None:
                return InputError(f"is now `{now}`", field=flag, suggestion=now)
            reason = f"is not an option of {command}{meant(flag, flags)} ({command} --help)"
            return InputError(reason, field=flag, suggestion=suggested(flag, flags))
    if isinstance(error, MissingArgumentError) and asked is not None:
        if asked.has_tokens or error.keyword:
            reason = f"needs a value ({command} --help)"
            return InputError(reason, field=error.keyword or asked.name)
        said = (asked.parameter.help or "").removesuffix(".")
        name = asked.name if asked.name.startswith("-") else asked.name.upper()
        reason = f"is missing{': ' * bool(said)}{said} ({command} --help)"
        return InputError(reason, field=name)
    if isinstance(error, CoercionError | ValidationError) and asked is not None:
        token = getattr(error, "token", None) or next(iter(asked.tokens), None)
        flag = asked.name if token is None else token.keyword or asked.name
        choices = asked.get_choices()
        if choices and token is not None:
            wrong = f"must be one of {', '.join(choices)}, not {token.value!r}"
            reason = f"{wrong}{meant(token.value, choices)}"
            return InputError(reason, field=flag, suggestion=suggested(token.value, choices))
        raised = getattr(error, "exception_message", None) or error.msg or "cannot be read"
        said = str(raised).replace("Value error, ", "").removesuffix(".")
        return InputError(f"{said[:1].lower()}{said[1:]}", field=flag)
    if rest and [one for one in apps[-1] if not one.startswith("-")]:
        if (now := RENAMED.get((" ".join(names), rest[0]))) is not None:
            return InputError(f"is now `{now}`", field=rest[0], suggestion=now)
        commands = [one for one in apps[-1] if not one.startswith("-")]
        reason = f"is not a command of {command}{meant(rest[0], commands)} ({command} --help)"
        return InputError(reason, field=rest[0], suggestion=suggested(rest[0], commands))
    if error.unused_tokens:
        extra = error.unused_tokens[0]
        reason = f"is one argument too many ({command} --help){_separated(extra, argv)}"
        return InputError(reason, field=extra)
    return InputError(str(error))


def _separated(extra: str, argv: Sequence[str]) -> str:
    """Return a hint where an argument follows the value of an option that takes several."""
    at = argv.index(extra) if extra in argv else 0
    flag, value = argv[at - 2 : at] if at > 1 else ("", "")
    if not flag.startswith("--") or value.startswith("-"):
        return ""
    return f"; separate several values by commas: {flag} {value},{extra}"


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
