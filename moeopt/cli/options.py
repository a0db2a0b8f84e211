"""Options and number formats that several subcommands share."""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, fields
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from cyclopts import Group, Parameter

from moeopt.core.errors import InputError
from moeopt.core.options import Options, option
from moeopt.core.units import gib_of, whole_of
from moeopt.core.wording import package

if TYPE_CHECKING:
    from rich.console import Console

    from moeopt.core.objective import Objective
    from moeopt.sim.traces.trace import Counts


HEADINGS = (
    *("Arguments", "What is given", "Options", "Solving", "Limits", "Memory", "Widths", "Steps"),
    *(
        "Front",
        "Whole layers",
        "Several GPUs or nodes",
        "Expert parallelism",
        "Assumptions",
        "Campaign",
    ),
    *("Target", "Output"),
)
"""Headings of options in help, in this order."""


def group(heading: str) -> Group:
    """Return the group of options under a heading of help."""
    return Group(heading, sort_key=HEADINGS.index(heading))


OUTPUT = group("Output")

Seed = Annotated[int, Parameter(help="Seed of everything random.")]
Where = Annotated[
    list[str] | None,
    Parameter(help="Rows of a CSV with further columns, as LABEL=VALUE; repeatable."),
]
Model = Annotated[str, Parameter(help="Preset, config.json, GGUF or JSON file.")]
Picture = Annotated[
    Path | None, Parameter(metavar="FILE", help="Picture: .svg, .png or .pdf.", group=OUTPUT)
]
Json = Annotated[
    bool, Parameter("--json", help="Print one JSON object per line (docs/json.md).", group=OUTPUT)
]


OWN_RULES = (
    "Custom heuristic beside the methods: FILE.py:function or package.module:function; repeatable."
)


@dataclass(frozen=True, kw_only=True)
class LimitOptions(Options):
    """What ends a solve."""

    group = "Limits"

    time_limit_s: float | None = option(
        None,
        "Seconds for building and solving; default: 60, or none with --work-limit.",
        metavar="S",
    )
    work_limit: float | None = option(
        None,
        "Units of work, each about a second of one core: the same answer on every machine.",
        metavar="W",
    )


@dataclass(frozen=True, kw_only=True)
class SolvingOptions(LimitOptions):
    """What holds for every way of solving."""

    group = "Solving"

    seed: int = option(0, "Seed of everything random.", metavar="N")
    workers: int = option(1, "Threads; --work-limit needs 1.", metavar="N")


DONE, BAD_INPUT, INFEASIBLE, NO_SOLUTION, MISMATCH = 0, 2, 3, 4, 5
GRAVEST_FIRST = (MISMATCH, BAD_INPUT, NO_SOLUTION, INFEASIBLE, DONE)
INTERRUPTED = 130
"""The exit code after Ctrl-C, by the shell's custom."""


def keyword(name: str, kind: Any, asked: Parameter, default: object = None) -> inspect.Parameter:
    """Return an option that a command gets beside those of its function."""
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, annotation=Annotated[kind, asked], default=default)


class command:  # noqa: N801 - it is used as a decorator
    """A command in which a parameter of a class of options is its fields, an option each.

    The options have the fields' names, without the ``_s`` of seconds, types, defaults and help.
    `more` are further options, of which the function takes those given as a dict of that name.

    `__call__` is what the command line calls: options become objects, and the function is called.
    """

    def __init__(
        self, function: Callable[..., int], more: Sequence[inspect.Parameter] = ()
    ) -> None:
        self.function, self.more = function, more
        self.__doc__ = function.__doc__
        signature = inspect.signature(function, eval_str=True)
        self.classes: dict[str, type[Options]] = {}
        self.made: list[inspect.Parameter] = []
        for one in signature.parameters.values():
            kind = one.annotation
            if one.name == "more":
                self.made += more
            elif isinstance(kind, type) and issubclass(kind, Options):
                self.classes[one.name] = kind
                self.made += (_option_of(field, kind) for field in fields(kind))
            else:
                self.made.append(one)
        self.made = [one.replace(annotation=_read_strictly(one.annotation)) for one in self.made]
        self.__signature__ = signature.replace(parameters=self.made)
        self.__annotations__ = {one.name: one.annotation for one in self.made}

    def __call__(self, *arguments: object, **options: object) -> int:
        """Call the function with the options as it takes them; return the exit code."""
        given = self.__signature__.bind(*arguments, **options)
        said = {*given.arguments}
        given.apply_defaults()
        values = given.arguments
        for name, kind in self.classes.items():
            values[name] = kind(**{of.name: values.pop(of.name) for of in fields(kind)})
        if self.more:
            told = {one.name: values.pop(one.name) for one in self.more}
            values["more"] = {name: value for name, value in told.items() if name in said}
        first = [values.pop(one.name) for one in self.made if one.kind is one.POSITIONAL_ONLY]
        return self.function(*first, **values)


SHORT = {"--out": "-o", "--method": "-m", "--methods": "-m", "--jobs": "-j"}
"""Short forms of the options that are typed most."""


def _option_of(field: "Field[Any]", kind: type[Options]) -> inspect.Parameter:
    """Return a field's option: text where the class of options reads it."""
    known, of, default = field.metadata, field.type, field.default
    if known["read"] is not None:
        of, default = (str | None, None) if default is None else (str, in_words(default))
    homes = (one for one in kind.__mro__ if field.name in vars(one).get("__annotations__", {}))
    home = next(homes, kind)
    flag, _, negative = (known["flag"] or flag_of(field.name)).partition("/")
    asked = Parameter(
        (flag, SHORT[flag]) if flag in SHORT else flag,
        negative=negative or (),
        help=known["help"],
        metavar=known["metavar"],
        show=not known["rare"],
        group=group(known["group"] or getattr(home, "group", kind.group)),
    )
    return keyword(field.name, of, asked, default)


def in_words(value: object) -> str:
    """Return a value of an option as one types it: several are separated by commas."""
    if isinstance(value, tuple):
        return ",".join(map(in_words, value))
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def flag_of(name: str) -> str:
    """Return the option of a field that names none of its own."""
    return "--" + name.removesuffix("_s").replace("_", "-")


def given(options: Options, kind: type[Options] = Options) -> dict[str, object]:
    """Return what differs from the defaults, flag -> value; of the fields of a class if told."""
    asked = fields(options if kind is Options else kind)
    return {
        one.metadata["flag"] or flag_of(one.name): getattr(options, one.name)
        for one in asked
        if getattr(options, one.name) != one.default
    }


def _read_strictly(kind: Any) -> Any:
    """Return a type whose numbers are read as Python reads them, and no more generously."""
    plain, said = (
        (kind.__origin__, kind.__metadata__) if get_origin(kind) is Annotated else (kind, ())
    )
    if any(isinstance(one, Parameter) and one.converter for one in said):
        return kind
    kinds = {one for one in get_args(plain) if one is not NoneType} or {plain}
    for number, words in ((int, "a whole number"), (float, "a number")):
        if kinds == {number}:
            return Annotated[kind, Parameter(converter=partial(_number, number, words))]
    if any(isinstance(one, Parameter) and one.negative for one in said):
        return kind
    return Annotated[kind, Parameter(negative=())]


def _number(number: Callable[[str], object], words: str, _: object, tokens: "Any") -> object:
    try:
        return number(tokens[0].value)
    except ValueError:
        raise ValueError(f"must be {words}, not {tokens[0].value!r}") from None


def human(name: str, kind: object) -> Parameter:
    """Return what reads a number as people write it: 8k tokens, 512MiB of memory, q8_0."""
    kinds = {one for one in get_args(kind) if one is not NoneType} or {kind}
    read: Callable[[str], object]
    if name == "kv_bits" and kinds == {float}:
        from moeopt.sim.machines.runtimes.kv_types import kv_bits_of

        read = kv_bits_of
    elif kinds == {int}:
        read = partial(whole_of, name)
    elif kinds == {float} and name.endswith("_gib"):
        read = partial(gib_of, name)
    else:
        return Parameter()
    return Parameter(converter=lambda _, tokens: read(tokens[0].value))


def method_names(_: str, methods: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the methods that an option names; a comma in a method's brackets is its own."""
    if isinstance(methods, tuple):
        return methods
    return tuple(name.strip() for name in re.split(r",(?![^\[]*\])", methods))


def labels(where: list[str] | None) -> dict[str, str]:
    """Return what ``--where`` says, label -> value."""
    pairs = [entry.partition("=") for entry in where or []]
    for entry, (label, sign, _) in zip(where or [], pairs, strict=True):
        if not label or not sign:
            raise InputError(f"must be LABEL=VALUE, not {entry!r}", field="--where")
    return {label: value for label, _, value in pairs}


def read_counts(
    file: Path | None, where: list[str] | None, format: str | None = None
) -> "Counts | None":
    """Return what ``--counts`` and ``--where`` say, None without them."""
    if file is None:
        if where:
            raise InputError(
                "chooses rows of a file of --counts, which is missing", field="--where"
            )
        return None
    from moeopt.sim.traces.files import load_counts

    return load_counts(file, format, where=labels(where))


def rich_console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """Return rich's console on stdout or stderr; what it prints of others goes through `rich_text`.

    Its own colours are control characters, which the streams of `main` escape.
    """
    from rich.console import Console

    class OurConsole(Console):
        def on_broken_pipe(self) -> None:  # rich's own ends the program with exit code 1
            raise BrokenPipeError

    stream = sys.stderr if stderr else sys.stdout
    return OurConsole(file=getattr(stream, "stream", stream), width=width)


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
    words: int = 1,
    headings: int = 0,
    width: int = 200,
) -> None:
    """Print rows of text as a table, as wide as the terminal, or as `width` where there is none.

    Neither numbers nor words are broken: heads and words are wrapped at blanks; where that is not
    enough, columns become headings above parts of the table, and then numbers go to a second table.

    Parameters
    ----------
    words
        How many columns, from the left, hold words; the others hold numbers.
    headings
        How many of these, from the left, may become headings.
    """
    heads, lines = [*columns], [[*map(str, row)] for row in rows]
    if title:
        print_lines([title])
    _print_part(heads, lines, words, headings, _room(width), "")


def fits(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Tell whether a table is as narrow as the terminal, or as `width` where there is none."""
    return _narrowest(columns, rows, 0, 2) <= _room(width)


def _room(width: int) -> int:
    return get_terminal_size((width, 24)).columns


def _narrowest(
    heads: Sequence[str], rows: Sequence[Sequence[str]], words: int, between: int
) -> int:
    """Return how wide a table is at least, with so many blanks between its columns."""
    found = -between
    for at, (head, *cells) in enumerate(zip(heads, *rows, strict=True)):
        parts = [word for cell in cells for word in (cell.split() if at < words else [cell])]
        found += max(map(len, [*_unbroken(head).split(" "), *parts])) + between
    return found


ROOMY = 14
"""Columns that names have beside their longest word, or else another column becomes a heading."""


def _unbroken(head: str) -> str:
    """Return a head of which a number keeps its unit when it is wrapped."""
    return head.replace(" %", "_%")


def _print_part(
    heads: list[str], rows: list[list[str]], words: int, headings: int, room: int, heading: str
) -> None:
    between = next((gap for gap in (2, 1) if _narrowest(heads, rows, words, gap) <= room), 0)
    names = [row[words - 1] for row in rows] if words else []
    wraps = max(map(len, names), default=0) - _narrowest([""], [[name] for name in names], 1, 0)
    crowded = _narrowest(heads, rows, words, 1) + min(wraps, ROOMY) > room
    if headings and (crowded or not between):
        parts: dict[str, list[list[str]]] = {}
        for first, *rest in rows:
            parts.setdefault(first, []).append(rest)
        for value, part in parts.items():
            said = ", ".join(filter(None, [heading, f"{heads[0]}: {value}" if value else ""]))
            _print_part(heads[1:], part, words - 1, headings - 1, room, said)
        return
    middle = words + (len(heads) - words + 1) // 2
    if not between and middle < len(heads):
        _print_part(heads[:middle], [row[:middle] for row in rows], words, 0, room, heading)
        others = [[*row[:words], *row[middle:]] for row in rows]
        _print_part([*heads[:words], *heads[middle:]], others, words, 0, room, "")
        return
    from rich import box
    from rich.table import Table

    if heading:
        print_lines(["", heading])
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.padding = (0, max(0, between - 1), 0, 0)  # the box has a blank of its own
    columns = list(zip(heads, *rows, strict=True))
    widths = [
        _narrowest([head], [[cell] for cell in cells], at < words, 0)
        for at, (head, *cells) in enumerate(columns)
    ]
    spare = room - sum(widths) - between * (len(heads) - 1)
    whole = [max(map(len, column)) - wide for column, wide in zip(columns, widths, strict=True)]
    for at in [*reversed(range(words)), *range(words, len(heads))]:
        more = max(0, min(spare, whole[at]))
        if at < words or more == whole[at]:  # a head of numbers in one line, or else as narrow
            widths[at] += more
            spare -= more
    for at, (head, wide) in enumerate(zip(heads, widths, strict=True)):
        shown = fill(_unbroken(head), max(wide, 1), break_long_words=False).replace("_%", " %")
        side: Literal["left", "right"] = "left" if at < words else "right"
        table.add_column(rich_text(shown), justify=side, width=wide, no_wrap=at >= words)
    for row in rows:
        table.add_row(*map(rich_text, row))
    rich_console(width=room).print(table)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text beside tables, wrapped as they are."""
    console = rich_console(width=_room(200))
    for line in lines:
        console.print(rich_text(line), highlight=False)


SCHEMA_VERSION = 2
"""Of what ``--json`` prints: docs/json.md."""


def print_json(*records: Mapping[str, object]) -> None:
    """Print objects for other programs, one per line."""
    for record in records:
        print(json.dumps({"schema_version": SCHEMA_VERSION, **_uniform(record)}), flush=True)


OBJECTIVES = {
    *("objective", "bound", "best", "best_bound", "optimum", "measured", "judged"),
    *("cost", "known", "later", "given", "exported"),
}
"""Fields that are lists of whole numbers in JSON, an entry for each of a problem's objectives."""


def _uniform(record: Mapping[str, object]) -> dict[str, object]:
    """Return an object in which a field has the form that it has in all objects."""
    return {name: _formed(name, value) for name, value in record.items()}


def _formed(name: str, value: object) -> object:
    if name in OBJECTIVES and isinstance(value, int):
        return [value]
    if isinstance(value, Mapping):
        entry = name == "without"  # constraint -> the optimum without it
        return {key: _formed("optimum" if entry else key, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_formed("", one) for one in value]
    return value


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
        raise InputError(f"{file}: the suffix must be one of {', '.join(PICTURES)}", field=flag)


@contextmanager
def drawing(file: Path, flag: str = "--out") -> Iterator[None]:
    """Tell what drawing needs, and why the picture of an option cannot be written."""
    try:
        yield
    except ModuleNotFoundError:
        raise InputError(f"{file}: pictures need {package('matplotlib')}", field=flag) from None
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}", field=flag) from None


def stem(path: Path) -> str:
    """Return a file's name without .json or .json.gz."""
    return path.name.removesuffix(".gz").removesuffix(".json")
