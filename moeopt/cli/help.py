"""Help of commands as plain text: headings, and options in a column beside what they mean."""

from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

WIDTH, COLUMN = 100, 28
"""Columns of a page, and of the names of options on it."""


class PlainHelp:
    """Formatter of the library of command lines."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Print a heading and its commands or options."""
        if panel.entries:
            lines = [f"{_plain(panel.title)}:"]
            for entry in panel.entries:
                lines += _entry(entry)
            _print(console, "\n".join([*lines, ""]))

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        """Print how the command is called."""
        if usage:
            _print(console, _plain(usage))

    def render_description(self, console: "Console", options: "ConsoleOptions", about: Any) -> None:
        """Print paragraphs; what begins with blanks stays as it is."""
        paragraphs = _plain(about).strip().split("\n\n")
        lines = [one if "\n " in one else "\n".join(wrap(one, WIDTH)) for one in paragraphs if one]
        if lines:
            _print(console, "\n\n".join(lines) + "\n")


def _entry(entry: "HelpEntry") -> list[str]:
    """Return the lines of a command or an option."""
    names = ", ".join(entry.display_labels)
    if entry.metavar and not entry.positional_label:
        names += f" {entry.metavar}"
    about = _plain(entry.description)
    if entry.choices:
        about += f" One of {', '.join(entry.choices)}."
    if entry.default not in (None, "False"):  # a flag is off unless it is given
        about += f" [{_plain(entry.default)}]"
    if entry.required:
        about += " (required)"
    told = wrap(about.strip(), WIDTH - COLUMN) or [""]
    first = f"  {names}"
    beside = len(first) < COLUMN
    lines = [f"{first:{COLUMN}}{told[0]}"] if beside else [first]
    return lines + [" " * COLUMN + line for line in (told[1:] if beside else told)]


def _plain(text: Any) -> str:
    """Return a text without styles."""
    if text is None:
        return ""
    inner = getattr(text, "primary_renderable", text)
    more = "".join(f" {one.plain}" for one in getattr(text, "texts", ()))
    return str(getattr(inner, "plain", inner)) + more


def _print(console: "Console", text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
