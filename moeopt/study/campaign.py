"""What a campaign is: instances x methods x seeds x limits, from a file or from code."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple
from warnings import warn

from pydantic import AfterValidator, Field, PlainValidator
from pydantic_core import PydanticCustomError

from moeopt.core.envelope import Flag, Frozen, InstanceEnvelope, Name, field_error, validated
from moeopt.core.errors import InputError, MoeoptWarning
from moeopt.core.json_files import read_object
from moeopt.core.untrusted import MAX_TOML_BYTES, check_toml, read_bytes, reading
from moeopt.core.wording import suggested, unknown
from moeopt.problems.files import load
from moeopt.solvers.arguments import DEFAULT_TIME_LIMIT_S, MAX_SEED
from moeopt.solvers.backends import ENGINES

Source = str | Path | InstanceEnvelope
"""An instance file, a folder to search, or an instance."""


SOLUTION_ENDINGS = (".solution.json", "-solution.json")
"""Of what ``moeopt solve --out DIR`` and ``moeopt plan --export DIR`` write beside instances."""


def instance_files(folder: Path) -> list[Path]:
    """Return the instance files below a folder, in order: nothing else that a library has."""
    return sorted(
        path
        for path in folder.rglob("*.json*")
        if path.name.endswith((".json", ".json.gz"))
        and path.name not in ("index.json", "best_known.json", "reference.json")
        and not path.name.endswith(SOLUTION_ENDINGS)
        and not {"solutions", "certificates"} & {*path.relative_to(folder).parts}
    )


class Loaded(NamedTuple):
    """An instance, the family it stands in, and its file if it came from one."""

    family: str
    instance: InstanceEnvelope
    file: Path | None = None


def load_all(source: Source) -> list[Loaded]:
    """Return all instances that a source holds; the family is the folder, or "-".

    Where an instance says that it repeats another family's experiment, so does its family's name.
    Solutions and other files of a folder are skipped with a warning.

    Raises
    ------
    InputError
        If a file cannot be used or a folder holds no instance.
    """
    if isinstance(source, InstanceEnvelope):
        return [Loaded("-", source)]
    path = Path(source)
    if not path.is_dir():
        return [_with_family(path)]
    files = instance_files(path)
    if not files:
        raise InputError("holds no instance files (*.json, *.json.gz)", where=path)
    return [one for one in map(_unless_solution, files) if one is not None]


def repeats(instance: InstanceEnvelope) -> str | None:
    """Return the family whose experiment an instance repeats, by its provenance; None if none.

    Two models with as many experts, as many of them chosen, and costs in proportion make the same
    experiment under two names: statistics over all families count one of the two.
    """
    original = (instance.provenance or {}).get("same_experiment_as")
    return original if isinstance(original, str) else None


def _unless_solution(file: Path) -> Loaded | None:
    """Return the instance of a file in a folder; None, and a warning, for what is a solution."""
    try:
        return _with_family(file)
    except InputError:
        data = read_object(file)
        if isinstance(data.get("instance"), str) or "problem" not in data:
            kind = "a solution" if "instance" in data else "not an instance"
            warn(f"{file}: is {kind}: skipped", MoeoptWarning, stacklevel=2)
            return None
        raise


@cache
def _name_of(folder: Path) -> str:
    return folder.resolve().name or "-"


def _with_family(file: Path) -> Loaded:
    instance = load(file)
    file = file.resolve() if file.is_symlink() else file
    folder = _name_of(file.absolute().parent)
    original = repeats(instance)
    return Loaded(f"{folder} (repeats {original})" if original else folder, instance, file)


Seed = Annotated[int, Field(strict=True, ge=0, le=MAX_SEED)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]

MOST_SOLVES = 1_000_000
"""Of a campaign, half a kilobyte each; also most values that parts have from the top level."""

Choice = str | Callable[[object], object]
"""A method's name, a custom heuristic as ``FILE.py:function`` or ``package.module:function``, or
the rule itself: instance -> solution."""


def _choice(value: object) -> Choice:
    if (isinstance(value, str) and value) or callable(value):
        return value
    raise PydanticCustomError("string_type", "must be a name")


_Choice = Annotated[Choice, PlainValidator(_choice)]


def _engine(name: str) -> str:
    if name not in ENGINES:
        raise field_error([], unknown(name, ENGINES, "known engines"), suggested(name, ENGINES))
    return name


class Settings(Frozen):
    """How instances are solved: each with every method, seed and time limit.

    Attributes
    ----------
    methods
        Names of methods; "heuristics" stands for all heuristics of a problem, "published" for its
        paper's rule, "exact" for all its exact methods but brute-force. None: every heuristic.
        Custom heuristics stand here as well, as ``FILE.py:function``, ``package.module:function``
        or functions.
    rules
        Custom heuristics that are set beside the methods, whatever these are; key ``with`` of a
        file.
    engine
        MILP engine of method milp; other methods have none.
    warm_start
        As in `moeopt.solve`; methods that look for their own start take no notice.
    prove_again
        Whether exact methods run also on instances whose optimum their library has proven already
        (`moeopt.study.known`).
    time_limits_s, work_limits
        Of each solve, as in `moeopt.solve`; 60 s where neither is given.
    """

    methods: Annotated[tuple[_Choice, ...], Field(min_length=1)] | None = None
    rules: Annotated[tuple[_Choice, ...], Field(alias="with")] = ()
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    time_limits_s: Annotated[tuple[Seconds, ...], Field(min_length=1)] | None = None
    work_limits: Annotated[tuple[Seconds, ...], Field(min_length=1)] | None = None
    workers: Annotated[int, Field(strict=True, ge=1, le=1024)] = 1
    engine: Annotated[Text, AfterValidator(_engine)] | None = None
    warm_start: Flag = True
    prove_again: Flag = False

    @property
    def times(self) -> int:
        """How often each method solves an instance."""
        return len(self.seeds) * len(self.time_limits_s or "1") * len(self.work_limits or "1")

    @property
    def limits(self) -> list[tuple[float | None, float | None]]:
        """Seconds and units of work, None where there is no such limit."""
        if self.work_limits is None:
            return [(limit, None) for limit in self.time_limits_s or (DEFAULT_TIME_LIMIT_S,)]
        return list(product(self.time_limits_s or (None,), self.work_limits))


class _PartOfFile(Settings):
    """A part as it stands in a file, with what it takes over from the top level."""

    instances: Annotated[tuple[Text, ...], Field(min_length=1)]


class _Head(Frozen):
    """The keys of a campaign file that are not a part's."""

    campaign: Name
    part: Annotated[tuple[dict[str, object], ...], Field(min_length=1)] | None = None


@dataclass(frozen=True)
class Part:
    """Instances that are solved with the same settings."""

    sources: Sequence[Source]
    settings: Settings


@dataclass(frozen=True)
class Campaign:
    """What is to be solved, part by part."""

    parts: Sequence[Part]
    name: str = ""

    def beside(self, rules: Sequence[Choice]) -> "Campaign":
        """Return the campaign with custom heuristics beside the methods of every part."""
        return self._changed(lambda settings: {"rules": (*settings.rules, *rules)})

    def proving_again(self) -> "Campaign":
        """Return the campaign with exact methods also where the optimum is proven already."""
        return self._changed(lambda _: {"prove_again": True})

    def _changed(self, update: Callable[[Settings], dict[str, object]]) -> "Campaign":
        """Return the campaign with other settings in every part."""
        parts = [
            replace(part, settings=part.settings.model_copy(update=update(part.settings)))
            for part in self.parts
        ]
        return Campaign(parts, self.name)

    @property
    def workers(self) -> int:
        """Most threads that one solve uses."""
        return max(part.settings.workers for part in self.parts)


def make_settings(
    methods: Sequence[Choice] | None = None,
    time_limits_s: Sequence[float] | None = None,
    seeds: Sequence[int] = (0,),
    workers: int = 1,
    rules: Sequence[Choice] = (),
    prove_again: bool = False,
    work_limits: Sequence[float] | None = None,
) -> Settings:
    """Return settings from code or from the command line.

    Raises
    ------
    InputError
        If a value cannot be used; the message names it.
    """
    values = {
        "methods": methods,
        "time_limits_s": time_limits_s,
        "work_limits": work_limits,
        "seeds": seeds,
        "workers": workers,
        "with": rules,
        "prove_again": prove_again,
    }
    with validated(model=Settings):
        return Settings.model_validate(values)


def is_campaign(path: Path) -> bool:
    """Tell whether a file is a campaign: by its suffix, or by a JSON object's key `campaign`."""
    if path.suffix == ".toml":
        return True
    return path.suffix == ".json" and path.is_file() and "campaign" in read_object(path)


def read_campaign(path: Path) -> Campaign:
    """Read a campaign from a ``.toml`` or ``.json`` file.

    The top level holds `campaign`, its name, and the keys of `Settings` and `instances`. With
    ``[[part]]`` sections there are several parts; each takes from the top level what it leaves out.
    Instances are files or folders, relative to the campaign's own folder.

    Raises
    ------
    InputError
        If the file cannot be read or used; one line: file, field, reason.
    """
    data = _read_toml(path) if path.suffix == ".toml" else read_object(path)
    given = {key: data.pop(key) for key in ("campaign", "part") if key in data}
    with validated(path, _Head):
        head = _Head.model_validate(given)
    parts = (
        [("", {})] if head.part is None else [(f"part[{i}].", p) for i, p in enumerate(head.part)]
    )
    shared = max((len(of) for of in data.values() if isinstance(of, list)), default=0)
    if len(parts) * shared > MOST_SOLVES:
        raise InputError(f"{len(parts)} parts that share {shared} values", where=path, field="part")
    return Campaign([_part(path, where, data | own) for where, own in parts], head.campaign)


def _part(path: Path, where: str, data: dict[str, object]) -> Part:
    with validated(path, _PartOfFile, where):
        part = _PartOfFile.model_validate(data)
    settings = Settings.model_validate(part.model_dump(by_alias=True, exclude={"instances"}))
    methods, rules = (
        None if names is None else tuple(_beside(path, name) for name in names)
        for names in (settings.methods, settings.rules)
    )
    settings = settings.model_copy(update={"methods": methods, "rules": rules})
    return Part([path.parent / name for name in part.instances], settings)


def _beside(path: Path, name: Choice) -> Choice:
    """Return a rule's file relative to the campaign's folder; any other name as it is."""
    if isinstance(name, str) and name.rpartition(":")[0].endswith(".py"):
        return str(path.parent / name)
    return name


def _read_toml(path: Path) -> dict[str, object]:
    with reading(path):
        text = read_bytes(path, MAX_TOML_BYTES).decode("utf-8-sig")
    check_toml(text, str(path))
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError
        raise InputError(f"not valid TOML: {error}", where=path) from None
