"""Scripts that start a runtime with an exported file: what the flags are for, ready to run."""

from collections.abc import Callable
from pathlib import Path

from moeopt.exporters.target import Target

_HEAD = """\
#!/bin/sh
# {name}: {summary}
# usage: {usage}
set -eu
"""

_SERVE = """\
model=${{1:?the model is missing}}
shift
if [ -e "$model" ]; then model=$(realpath -- "$model"); fi
cd "$(dirname -- "$0")"
exec {start} "$model" {flags} "$@"
"""


def serving_script(
    target: Target, flags: Callable[[Path], str] | None
) -> Callable[[Path], str] | None:
    """Return what makes the script of a target that serves a model; None for any other.

    The script runs in its own folder, so that the folder can be moved to another machine.
    """
    if flags is None or not target.start:
        return None

    def script(path: Path) -> str:
        usage = f"sh {path.name}.run.sh MODEL [more flags]"
        head = _HEAD.format(name=target.name, summary=target.summary, usage=usage)
        return head + _SERVE.format(start=target.start, flags=flags(path))

    return script


def plain_script(name: str, summary: str, commands: list[str]) -> str:
    """Return a script that runs commands one after the other, in its own folder."""
    head = _HEAD.format(name=name, summary=summary, usage="sh FILE")
    return head + "\n".join(['cd "$(dirname -- "$0")"', *commands, ""])
