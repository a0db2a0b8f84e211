"""What an exporter is given and what it hands back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError
from moeopt.core.json_files import file_stem, save, write_bytes
from moeopt.core.objective import Objective, relative
from moeopt.sim.models.model_shape import ModelShape
from moeopt.solvers.arguments import Limits

NOTES_SUFFIX = ".notes.json"
"""Added to a file's name: where everything about it stands that its format has no place for."""

RUN_SUFFIX = ".run.sh"
"""Added to a file's name: a script that starts the consumer with it."""

OptionValue = int | str | tuple[SolutionEnvelope, InstanceEnvelope]
"""What an option of a target may be: the last is another problem's plan that goes along."""


G = TypeVar("G", bound=InstanceEnvelope)
S = TypeVar("S", bound=SolutionEnvelope)


@dataclass(frozen=True)
class Loss:
    """What a runtime's form costs: the objectives of the plan given and of the plan exported.

    `proven` says whether no plan of that form is better than the exported one.
    """

    problem: str
    form: str
    given: Objective
    exported: Objective
    proven: bool

    @property
    def percent(self) -> float | None:
        """How much the objective's first entry rises, in % of the given plan's."""
        share = relative(self.exported, self.given, self.given)
        return None if share is None else 100 * share

    def __str__(self) -> str:
        best = "the best such plan" if self.proven else "the best such plan found"
        if self.percent is None:
            return f"{self.form}: {best} makes an objective of 0 positive"
        return f"{self.form}: {best} changes the objective by {self.percent:+.3f} %"

    def to_dict(self) -> dict[str, object]:
        """Return the loss for JSON."""
        return {name: getattr(self, name) for name in (*self.__dataclass_fields__, "percent")}


@dataclass(frozen=True)
class Job:
    """What is to be exported.

    Attributes
    ----------
    instance, solution
        It passed the checker; a target that needs the instance alone may have no solution.
    objective
        The solution's.
    shape
        The model's shape, or None if nobody said which model it is.
    options
        Value of every option of the target.
    limits
        For finding a plan of the runtime's form.
    """

    instance: InstanceEnvelope
    solution: SolutionEnvelope | None = None
    objective: Objective | None = None
    shape: ModelShape | None = None
    options: Mapping[str, OptionValue | None] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def given(self, kind: type[G]) -> G:
        """Return the instance as what its problem's instances are."""
        if not isinstance(self.instance, kind):
            raise TypeError(f"{self.instance.name}: is no {kind.__module__}")
        return self.instance

    def plan(self, kind: type[S]) -> S:
        """Return the solution as what its problem's solutions are."""
        if not isinstance(self.solution, kind):
            raise TypeError(f"{self.instance.name}: its solution is no {kind.__module__}")
        return self.solution

    @property
    def model_class(self) -> str | None:
        """Return the name of the model's class: the option, or what the model says, or None."""
        return self.text("model_class") or (None if self.shape is None else self.shape.model_class)

    def text(self, option: str) -> str | None:
        """Return an option's text; None without one."""
        value = self.options.get(option)
        return value if isinstance(value, str) else None

    def number(self, option: str) -> int | None:
        """Return an option's number; None without one."""
        value = self.options.get(option)
        return value if isinstance(value, int) else None


@dataclass(frozen=True)
class Exported:
    """A plan in a runtime's format.

    Attributes
    ----------
    payload
        The file's content.
    flags
        Path of the file -> what to add to the runtime's command line; None if nothing is.
    notes
        What else is to be known, for the side file.
    loss
        What the form of the format costs, where the plan had to be brought into it.
    same_as
        Other flags that say the same.
    warnings
        Why the consumer would ignore or change the plan.
    script
        The file's name -> a shell script that starts the consumer with the file beside itself.
    name, suffix, strict_suffix
        What the file is called in a folder, and whether the runtime insists on the suffix.
    """

    payload: bytes
    flags: Callable[[Path], str] | None = None
    notes: Mapping[str, object] = field(default_factory=dict)
    loss: Loss | None = None
    same_as: str | None = None
    warnings: tuple[str, ...] = ()
    script: Callable[[str], str] | None = None
    name: str = ""
    suffix: str = ""
    strict_suffix: bool = False

    @property
    def text(self) -> str:
        """The file's content as text.

        Raises
        ------
        InputError
            If it is a binary file.
        """
        try:
            return self.payload.decode()
        except UnicodeDecodeError:
            raise InputError("is missing: the file is no text", field="--out") from None

    def all_notes(self, path: Path | None = None) -> dict[str, object]:
        """Return the notes with flags and loss, which name the file if it lies somewhere."""
        known = dict(self.notes)
        if path is not None and self.flags is not None:
            known["flags"] = self.flags(path)
        if self.same_as is not None:
            known["same_as"] = self.same_as
        known["warnings"] = list(self.warnings)
        return known | {"loss": None if self.loss is None else self.loss.to_dict()}

    def save(self, out: str | Path) -> tuple[Path, Path]:
        """Write the file and what goes beside it, and return the paths of file and notes.

        Beside it go the notes, and a script that starts the consumer where the target has one; all
        names begin with the file's.

        Parameters
        ----------
        out
            A file, or a folder, in which the file is called like the instance.
        """
        path = destination(Path(out), self.name, self.suffix, self.strict_suffix)
        notes = path.with_name(path.name + NOTES_SUFFIX)
        write_bytes(self.payload, path)
        if self.script is not None:
            script = path.with_name(path.name + RUN_SUFFIX)
            write_bytes(self.script(path.name).encode(), script, 0o755)
        save(self.all_notes(path), notes)
        return path, notes


def destination(out: Path, name: str, suffix: str, strict: bool) -> Path:
    """Return where a file goes: `out`, or in that folder a name made of the instance's.

    Raises
    ------
    InputError
        If there is no such folder, or the runtime insists on another suffix.
    """
    if out.is_dir():
        return out / (file_stem(name) + suffix)
    if not out.parent.is_dir():
        raise InputError(f"{out.parent} is not a folder", field="--out")
    if strict and not out.name.endswith(suffix):
        raise InputError(f"{out} must end in {suffix}, the suffix of this format", field="--out")
    return out
