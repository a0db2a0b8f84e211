"""Reference of commands and of what ``--json`` prints, as Markdown made from the options.

python -m moeopt.cli.reference    # writes it into docs/commands.md, in a checkout
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from moeopt.cli.commands import COMMANDS, HEADINGS
from moeopt.cli.main import build_app
from moeopt.core.wording import markdown_table

if TYPE_CHECKING:
    from cyclopts import App, Argument

BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"


def reference() -> str:
    """Return a section for each command: what it is for, its options, an example."""
    app = build_app()
    lines = []
    for heading in HEADINGS:
        lines += [f"### {heading}", ""]
        for command in COMMANDS:
            if command.heading == heading:
                lines += [f"#### `moeopt {command.name}`", "", *command.about.split("\n"), ""]
                lines += [*_options(app, command.name), "```sh", command.example, "```", ""]
    return "\n".join(lines).rstrip()


def _options(app: "App", name: str) -> Iterator[str]:
    """Yield a table of a command's options; of `generate`, those that every problem has."""
    found = app
    for word in name.split():
        found = found[word]
    if name == "generate":
        problems = [one for one in found if not one.startswith("-")]
        yield f"Problems: {', '.join(f'`{one}`' for one in problems)}. Every problem has"
        yield "(`moeopt generate PROBLEM --help` shows the others, too; all but those that"
        yield "read nothing of a machine need `--machine`):"
        yield ""
        shared = [{one.name for one in _arguments(found[problem])} for problem in problems]
        everywhere = set.intersection(*shared)
        rows = [_row(one) for one in _arguments(found[problems[0]]) if one.name in everywhere]
    else:
        rows = [_row(one) for one in _arguments(found)]
    if rows:
        yield from markdown_table(("option", "meaning", "default"), rows, 3)
        yield ""


def _arguments(app: "App") -> "list[Argument]":
    return list(app.assemble_argument_collection())


def _row(one: "Argument") -> list[str]:
    positional = not one.name.startswith("-")
    flag = next((name for name in one.names if name.startswith("--")), one.name)
    default = one.field_info.default
    absent = default is None or default is False or default is one.field_info.empty
    shown = "" if absent else f"`{default}`"
    if one.required:
        shown = "required"
    about = (one.parameter.help or "").replace("|", "\\|").replace("\n", " ")
    return [f"`{flag.upper() if positional else flag}`".replace("|", "\\|"), about, shown]


def with_reference(page: str) -> str:
    """Return docs/commands.md with the reference of today."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


if __name__ == "__main__":
    file = Path("docs/commands.md")
    file.write_text(with_reference(file.read_text()))
