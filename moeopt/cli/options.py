"""Options and number formats that several subcommands share."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from moeopt.core.errors import InputError
from moeopt.core.options import Options, option
from moeopt.core.units import gib_of, whole_of

if TYPE_CHECKING:
    from rich.console import Console

    from moeopt.core.objective import Objective
    from moeopt.sim.traces.trace import Counts
    from moeopt.solvers.arguments import Asked


Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of everything random.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="LABEL=VALUE", help="Rows of a CSV with further columns."),
]
Model = Annotated[
    str, typer.Option(help="Preset, config.json, GGUF or JSON file.", show_default=False)
]
Picture = Annotated[Path | None, typer.Option(metavar="FILE", help="Picture: .svg, .png or .pdf.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout.")]


OWN_RULES = (
    "A heuristic of your own beside the methods: FILE.py:function or package.module:function;"
    " repeatable."
)


@dataclass(frozen=True, kw_only=True)
class LimitOptions(Options):
    """What ends a solve."""

    time_limit: float | None = option(
        None,
        "Seconds for building and solving; default: 60, or none with --work-limit.",
        metavar="S",
    )
    work_limit: float | None = option(
        None,
        "Units of work, each about a second of one core: the same answer on every machine.",
        metavar="W",
    )

    @property
    def limits(self) -> "Asked":
        """They as arguments of `moeopt.solve`."""
        return {"time_limit_s": self.time_limit, "work_limit": self.work_limit}


@dataclass(frozen=True, kw_only=True)
class SolvingOptions(LimitOptions):
    """What holds for every way of solving."""

    seed: int = option(0, "Seed of everything random.", metavar="N")
    workers: int = option(1, "Threads; --work-limit needs 1.", metavar="N")


DONE, BAD_INPUT, INFEASIBLE, NO_SOLUTION, MISMATCH = 0, 2, 3, 4, 5
GRAVEST_FIRST = (MISMATCH, BAD_INPUT, NO_SOLUTION, INFEASIBLE, DONE)
INTERRUPTED = 130
"""The exit code after Ctrl-C, by the shell's custom."""


def keyword(name: str, kind: Any, asked: object, default: object = None) -> inspect.Parameter:
    """Return an option that a command gets beside those of its function."""
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, annotation=Annotated[kind, asked], default=default)


def command(
    function: Callable[..., int], more: Sequence[inspect.Parameter] = (), doc: str | None = None
) -> Callable[..., int]:
    """Return a command in which a parameter of a class of options is its fields, an option each.

    The options have the fields' names, without the ``_s`` of seconds, types, defaults and help.

    Parameters
    ----------
    more
        Further options, which the function takes as a dict of that name.
    doc
        Its help, if not the function's.
    """
    signature = inspect.signature(function, eval_str=True)
    classes: dict[str, type[Options]] = {}
    made: list[inspect.Parameter] = []
    for one in signature.parameters.values():
        kind = one.annotation
        if one.name == "more":
            made += more
        elif isinstance(kind, type) and issubclass(kind, Options):
            classes[one.name] = kind
            made += map(_option_of, fields(kind))
        else:
            made.append(one.replace(kind=one.KEYWORD_ONLY))

    def expanded(**given: object) -> int:
        for name, kind in classes.items():
            given[name] = kind(**{of.name: given.pop(of.name) for of in fields(kind)})
        if more:
            given["more"] = {one.name: given.pop(one.name) for one in more}
        return function(**given)

    expanded.__signature__ = signature.replace(parameters=made)  # type: ignore[attr-defined]
    expanded.__doc__ = doc or function.__doc__
    return expanded


def _option_of(field: "Field[Any]") -> inspect.Parameter:
    """Return a field's option: text where the class of options reads it."""
    known, kind = field.metadata, field.type
    if known["read"] is not None:
        kind = str | None if field.default is None else str
    flag = known["flag"] or "--" + field.name.removesuffix("_s").replace("_", "-")
    asked = typer.Option(flag, help=known["help"], metavar=known["metavar"])
    return keyword(field.name, kind, asked, field.default)


def group(help: str, commands: Mapping[str, Callable[..., int]]) -> typer.Typer:
    """Return a group of commands, by their names."""
    # without rich's markup: an extra's brackets would be taken for it
    app = typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)
    for name, function in commands.items():
        app.command(name)(function)
    app.callback()(lambda: None)
    return app


def human(name: str, kind: object) -> Callable[[str], object] | None:
    """Return what reads a number as people write it: 8k tokens, 512MiB of memory, q8_0."""
    kinds = {one for one in get_args(kind) if one is not NoneType} or {kind}
    if name == "kv_bits" and kinds == {float}:
        from moeopt.sim.machines.runtimes.memory import kv_bits_of

        return kv_bits_of
    if kinds == {int}:
        return lambda text: whole_of(name, text)
    if kinds == {float} and name.endswith("_gib"):
        return lambda text: gib_of(name, text)
    return None


def method_names(methods: str | None) -> list[str] | None:
    """Return the methods that an option names; a comma in a method's brackets is its own."""
    if methods is None:
        return None
    return [name.strip() for name in re.split(r",(?![^\[]*\])", methods)]


def labels(where: list[str] | None) -> dict[str, str]:
    """Return what ``--where`` says, label -> value."""
    pairs = [entry.partition("=") for entry in where or []]
    for entry, (label, sign, _) in zip(where or [], pairs, strict=True):
        if not label or not sign:
            raise InputError(f"--where: must be LABEL=VALUE, not {entry!r}")
    return {label: value for label, _, value in pairs}


def read_counts(file: Path | None, where: list[str] | None) -> "Counts | None":
    """Return what ``--counts`` and ``--where`` say, None without them."""
    from moeopt.sim.traces.files import load_counts

    if file is None:
        if where:
            raise InputError("--where: chooses rows of a file of --counts, which is missing")
        return None
    return load_counts(file, where=labels(where))


def rich_console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """Return rich's console on stdout or stderr; what it prints of others goes through `rich_text`.

    Its own colours are control characters, which the streams of `main` escape.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=getattr(stream, "stream", stream), width=width)


def table_width(otherwise: int) -> int | None:
    """Return how wide a table is: as the terminal, or a number of columns where there is none."""
    return None if sys.stdout.isatty() else otherwise


def rich_text(text: str) -> str:
    """Return a text that rich prints as it is, without control characters."""
    from rich.markup import escape

    from moeopt.core.wording import terminal_text

    return escape(terminal_text(text))


def print_table(
    columns: Iterable[str],
    rows: Iterable[Iterable[str]],
    title: str = "",
    *,
    width: int = 200,
    numbers: bool = False,
) -> None:
    """Print rows of text as a table, as wide as the terminal or at most `width`.

    With `numbers` all columns but the first are right-justified, and the title stands on the left.
    """
    from rich.table import Table

    side: Literal["left", "center"] = "left" if numbers else "center"
    table = Table(title=rich_text(title) if title else None, title_justify=side)
    for place, column in enumerate(columns):
        table.add_column(rich_text(column), justify="right" if numbers and place else "left")
    for row in rows:
        table.add_row(*map(rich_text, row))
    rich_console(width=table_width(width)).print(table)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text beside tables, wrapped as they are."""
    console = rich_console(width=table_width(200))
    for line in lines:
        console.print(rich_text(line), highlight=False)


def print_error(message: str) -> None:
    """Print an error as one line on stderr, whatever a file's name contains."""
    print("moeopt: error:", " ".join(message.splitlines()), file=sys.stderr)


def warn(*messages: object) -> None:
    """Print warnings on stderr, a line each."""
    for message in messages:
        print(f"moeopt: warning: {message}", file=sys.stderr)


def shown(problem: str, objective: "Objective | None") -> str:
    """Return an objective for people, each entry with its unit, or a dash if unknown."""
    from moeopt.solvers.result import with_unit

    return with_unit(problem, objective)


def in_ms(problem: str, objective: "Objective") -> str:
    """Return an objective with its times in ms, all digits, as beside an axis in ms."""
    from moeopt.solvers.result import with_unit

    def milliseconds(value: int) -> str:
        part = f"{value % 10**6:06d}".rstrip("0")
        return f"{value // 10**6:,}" + f".{part}" * bool(part) + " ms"

    return with_unit(problem, objective, milliseconds)


PICTURES = (".svg", ".png", ".pdf")


def check_picture(flag: str, file: Path | None) -> None:
    """Raise InputError unless a picture's suffix says how to write it."""
    if file is not None and file.suffix not in PICTURES:
        raise InputError(f"{flag}: {file}: the suffix must be one of {', '.join(PICTURES)}")


@contextmanager
def drawing(file: Path) -> Iterator[None]:
    """Tell what drawing needs, and why the picture of ``--out`` cannot be written."""
    try:
        yield
    except ModuleNotFoundError:
        raise InputError(f"--out: {file}: pictures need matplotlib, the extra 'report'") from None
    except OSError as error:
        raise InputError(f"--out: {file}: {error.strerror}") from None


def stem(path: Path) -> str:
    """Return a file's name without .json or .json.gz."""
    return path.name.removesuffix(".gz").removesuffix(".json")
