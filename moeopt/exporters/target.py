"""What a target declares: a runtime or tool, what its format can hold, and what it asks to know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moeopt.core.errors import InputError
from moeopt.core.wording import kind_of
from moeopt.exporters.exported import Exported, Job, OptionValue, destination


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

    def checked(self, value: Any) -> OptionValue:
        """Return a value given, or raise InputError if it is none for this option."""
        found = value  # mypy narrows what `type` is asked of to `object`
        if type(found) is not self.kind:
            words = {int: "an integer", str: "a text", tuple: "a solution and its instance"}
            raise InputError(f"{self.flag}: must be {words[self.kind]}, not {kind_of(found)}")
        if self.kind is int and not self.low <= value <= self.high:
            raise InputError(f"{self.flag}: must be from {self.low} to {self.high}, not {value}")
        return value  # type: ignore[no-any-return]


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
    honoured_by
        Classes of models for which the consumer takes the file; None: the class does not matter.
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
    honoured_by: frozenset[str] | None = None
    warn: Callable[[Job], tuple[str, ...]] = field(default=lambda _: ())
    start: str = ""

    def fits(self, problem: str) -> bool:
        """Tell whether it takes this problem."""
        return not self.problems or problem in self.problems

    def honours(self, model_class: str | None) -> bool | None:
        """Tell whether the consumer takes the file for a model of this class; None if unknown."""
        if self.honoured_by is None:
            return True
        return None if model_class is None else model_class in self.honoured_by

    def destination(self, out: Path, name: str) -> Path:
        """Return where the file of an instance of this name goes; errors as `destination`."""
        return destination(out, name, self.suffix, self.strict_suffix)

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
                raise InputError(f"{flag}: {self.name} has no such option; it has: {has}")
        return {
            name: option.checked(given[name]) if name in given else option.default
            for name, option in known.items()
        }
