"""What a target declares: a runtime or tool, what its format can hold, and what it asks to know.

Which classes of models a consumer takes a file for stands in ``honoured.json``, with the version
that was read and the date. The file is a plan's word against a program that changes: a class that
it does not list is unknown, unless the consumer's own list is complete.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypedDict

from moeopt.core.errors import InputError
from moeopt.core.wording import kind_of
from moeopt.exporters.exported import Exported, Job, OptionValue

Honoured = Literal["yes", "no", "unknown"]

HERE = "@here @"
"""Stands for the script's own folder; its blank makes `shlex.quote` put it into single quotes."""

_SCRIPT = """\
#!/bin/sh
# {name}: {summary}
# usage: sh THIS-FILE MODEL [more flags]
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
model=${{1:?the model is missing}}
shift
exec {start} "$model" {flags} "$@"
"""


class Classes(TypedDict):
    """What is known of a consumer's models."""

    consumer: str
    read: str
    yes: list[str]
    others: Honoured


@cache
def classes_of(target: str) -> Classes:
    """Return the classes of models that a target's consumer takes."""
    known: dict[str, Classes] = json.loads(Path(__file__).with_name("honoured.json").read_text())
    return known[target]


def by_class(target: str) -> Callable[[Job], Honoured]:
    """Return what says by the model's class whether a target's file is carried out."""

    def honoured(job: Job) -> Honoured:
        known, of = classes_of(target), job.model_class
        if of in known["yes"]:
            return "yes"
        return "unknown" if of is None else known["others"]

    return honoured


@dataclass(frozen=True)
class Option:
    """Something that a target asks for besides plan and model.

    Attributes
    ----------
    name
        In Python; the command line has it with dashes.
    kind
        `int` or `str`; `tuple` for another problem's solution with its instance, which the command
        line takes as the solution's file.
    default
        What holds if it is not given; None if nothing does.
    low, high
        Range of an `int`.
    """

    name: str
    kind: type
    help: str
    default: int | str | None = None
    low: int = 0
    high: int = 2**31

    @property
    def flag(self) -> str:
        """Return what it is called on the command line."""
        return "--" + self.name.replace("_", "-")

    def checked(self, value: OptionValue) -> OptionValue:
        """Return a value given, or raise InputError if it is none for this option."""
        if not isinstance(value, self.kind) or isinstance(value, bool):
            words = {int: "an integer", str: "a text", tuple: "a solution and its instance"}
            raise InputError(f"{self.flag}: must be {words[self.kind]}, not {kind_of(value)}")
        if isinstance(value, int) and not self.low <= value <= self.high:
            raise InputError(f"{self.flag}: must be from {self.low} to {self.high}, not {value}")
        return value


MODEL_CLASS = Option(
    "model_class", str, "The model's class, where its config.json or preset is not known."
)


@dataclass(frozen=True)
class Target:
    """One format, for one consumer.

    Attributes
    ----------
    name
        As ``--to`` takes it.
    summary
        Consumer and what of it reads the file, in a line.
    problems
        Whose plans it takes; empty: any problem's.
    suffix
        Of the file in a folder; with `strict_suffix` the consumer insists on it.
    export
        Brings a job into the format.
    holds, loses
        What the format can say of a plan, and what not.
    plan
        Whether it holds a plan, so that a solution is needed; otherwise an instance is enough.
    names_experts
        Whether the file names single experts; otherwise it has layers and numbers only.
    options
        What it asks for besides.
    honoured
        Returns whether the consumer carries the file out for a job's model.
    warn
        Returns why the consumer would ignore or change the plan of a job, one sentence for each
        reason.
    start
        What a shell starts the consumer with, up to the model; empty: the file is not for a
        program that serves a model.
    """

    name: str
    summary: str
    problems: tuple[str, ...]
    suffix: str
    export: Callable[[Job], Exported]
    holds: str
    loses: str
    strict_suffix: bool = False
    plan: bool = True
    names_experts: bool = True
    options: tuple[Option, ...] = ()
    honoured: Callable[[Job], Honoured] = field(default=lambda _: "yes")
    warn: Callable[[Job], tuple[str, ...]] = field(default=lambda _: ())
    start: str = ""

    def script(self, flags: Callable[[Path], str] | None) -> Callable[[str], str] | None:
        """Return what makes a script of a file's name, if the target serves a model."""
        if flags is None or not self.start:
            return None

        def made(file: str) -> str:
            here = flags(Path(HERE) / file).replace(HERE, "'\"$here\"'")
            return _SCRIPT.format(
                name=self.name, summary=self.summary, start=self.start, flags=here
            )

        return made

    def fits(self, problem: str) -> bool:
        """Tell whether it takes this problem."""
        return not self.problems or problem in self.problems

    def resolved(self, given: Mapping[str, OptionValue]) -> dict[str, OptionValue | None]:
        """Return the value of every option, from those given and the defaults.

        Raises
        ------
        InputError
            If one is given that the target does not have, or with a wrong value.
        """
        known = {option.name: option for option in self.options}
        for name in given:
            if name not in known:
                has = ", ".join(option.flag for option in self.options) or "none"
                flag = "--" + str(name).replace("_", "-")
                raise InputError(f"{self.name} has no such option; it has: {has}", field=flag)
        return {
            name: option.checked(given[name]) if name in given else option.default
            for name, option in known.items()
        }
