"""Flags of llama.cpp and ik_llama.cpp: how a command line is read, and what each of them means.

``flags.toml`` lists them by what they do to a prediction. What is not read is repeated in the
command that is printed; what would change a speed or a memory and is not predicted is said.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from moeopt.core.errors import InputError
from moeopt.sim.machines.cores import NumaMode, cores_of
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import MOST_CONTEXT
from moeopt.sim.machines.runtimes.kv_types import KV_TYPES, OF_IK, KvType
from moeopt.sim.models.model_shape import ModelShape

DATA: Mapping[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

NAMES: dict[str, str] = {
    spelling: name for name, others in DATA["read"].items() for spelling in (name, *others)
}
"""Spelling of a flag that is read -> what it is called here."""

COUNTS = {"alone": (0, 0), "value": (1, 1), "optional": (0, 1), "pair": (2, 2)}
"""Group of flags -> the fewest and the most values that they take."""


def _values() -> dict[str, tuple[int, int]]:
    takes = dict.fromkeys(DATA["read"], (1, 1))
    groups = [DATA["takes"], DATA["loading"], DATA["source"], DATA["silent"]]
    for group in [*groups, *DATA["noted"], *DATA["refused"]]:
        for kind, few_and_most in COUNTS.items():
            takes |= dict.fromkeys(group.get(kind, ()), few_and_most)
    return takes


def _listed(groups: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return flag -> why of groups of flags."""
    return {flag: of["why"] for of in groups for kind in COUNTS for flag in of.get(kind, ())}


VALUES = _values()
"""Flag -> the fewest and the most values that it takes; of those read, by the name used here."""

NOTED, REFUSED = _listed(DATA["noted"]), _listed(DATA["refused"])
"""Flag -> why it is said that it is not predicted, or why it is refused."""

LOADING, SOURCE = (
    {flag for kind in COUNTS for flag in DATA[group].get(kind, ())}
    for group in ("loading", "source")
)

KNOWN = {*NAMES, *VALUES}

PLACING = ("-ngl", "-sm", "-ts", "-ot", "-mg", "--device", "--cpu-moe", "--n-cpu-moe")
"""Flags that say where layers and experts lie."""

ANEW = (*PLACING, "-c", "-ctk", "-ctv", "-ub", "-t")
"""Flags that a printed command has by what was understood of them; others are repeated."""

BATCH, SWITCHES = 2048, {"on": True, "1": True, "true": True, "enabled": True, "auto": True}
"""llama.cpp's default of ``-b``; what ``-fa`` and ``--fit`` say for yes, and below for no."""

SWITCHES |= {"off": False, "0": False, "false": False, "disabled": False}

NUMA: dict[str, NumaMode] = {
    "distribute": "interleaved",
    "isolate": "isolate",
    "numactl": "interleaved",
}
"""``--numa`` -> how weights lie on several nodes; numactl's own choice is not known here."""


@dataclass(frozen=True)
class Flag:
    """A flag as it was given.

    Attributes
    ----------
    name
        What it is called here: the same for all spellings.
    words
        The flag and its values as given.
    """

    name: str
    words: tuple[str, ...]

    @property
    def value(self) -> str:
        """Its first value; empty without one."""
        return self.words[1] if len(self.words) > 1 else ""


@dataclass(frozen=True)
class CommandLine:
    """A command line: its flags in order, and words that belong to none."""

    flags: tuple[Flag, ...]
    strays: tuple[str, ...] = ()

    @cached_property
    def given(self) -> dict[str, str]:
        """Flag -> its value; the last one counts."""
        return {flag.name: flag.value for flag in self.flags}

    def repeated(self, names: Sequence[str] | set[str]) -> tuple[str, ...]:
        """Return the words of these flags."""
        return tuple(word for flag in self.flags if flag.name in names for word in flag.words)

    def whole(self, name: str, least: int = 0) -> int | None:
        """Return a flag's value as a whole number; None if it is not given."""
        if name not in self.given:
            return None
        return whole(name, self.given[name], least)

    def off(self, name: str) -> bool:
        """Return whether a switch is given and says no."""
        value = self.given.get(name) or "on"
        if value not in SWITCHES:
            raise InputError(f"must be on, off or auto, not {value!r:.40}", field=name)
        return not SWITCHES[value]


def whole(name: str, text: str, least: int) -> int:
    """Return a flag's value as a whole number.

    Raises
    ------
    InputError
        If it is none, or below `least`.
    """
    if not re.fullmatch(r"[+-]?\d{1,9}", text) or int(text) < least:
        what = f"a whole number from {least} on" if least > -(10**9) else "a whole number"
        raise InputError(f"must be {what}, not {text!r:.40}", field=name)
    return int(text)


def read_line(words: Sequence[str]) -> CommandLine:
    """Return the flags of a command line as llama.cpp reads them.

    A flag takes as many values as it has, whatever they look like; one that nobody knows takes a
    word without a dash behind it. The program may stand first, and before it what starts it.

    Raises
    ------
    InputError
        If a flag lacks its value, or is refused.
    """
    flags, at = list[Flag](), _program(words)
    strays = list(words[: max(0, at - 1)])
    while at < len(words):
        word, at = words[at], at + 1
        if not word.startswith("-") or word == "-":
            strays.append(word)
            continue
        plain = word.replace("_", "-") if word.startswith("--") and word not in KNOWN else word
        name = NAMES.get(plain, plain)
        least, most = VALUES.get(name, (0, 1))
        end = at
        while end < min(len(words), at + most) and (end < at + least or words[end][:1] != "-"):
            end += 1
        taken = words[at:end]
        if len(taken) < least or any(value in KNOWN for value in taken):
            raise InputError("needs a value", field=word)
        if name in REFUSED:
            raise InputError(REFUSED[name], field=word)
        flags.append(Flag(name, (word, *taken)))
        at = end
    return CommandLine(tuple(flags), tuple(strays))


def _program(words: Sequence[str]) -> int:
    """Return how many words there are up to the program and with it."""
    known = next((row for row, word in enumerate(words) if word in KNOWN), len(words))
    named = (row for row, word in enumerate(words[:known]) if PROGRAM.search(word))
    first = bool(words) and words[0][:1] not in ("-", "") and "=" not in words[0]
    return next(named, 0 if first else -1) + 1


PROGRAM = re.compile(r"(^|[/\\])llama-[a-z-]+(\.exe)?$")
"""A program's name, with its folder."""


def unknown(line: CommandLine) -> Iterator[str]:
    """Yield what of a line nobody knows, or what is known and not predicted, in words.

    Raises
    ------
    InputError
        If a word is nearly a flag that is read: what was meant counts.
    """
    for stray in line.strays:
        yield f"--flags: {stray!r:.60} belongs to no flag: it is not read"
    for flag in line.flags:
        word = flag.words[0]
        if flag.name in NOTED:
            yield f"--flags: {word}: {NOTED[flag.name]}"
        elif flag.name not in KNOWN:
            begin, sign, value = word.partition("=")
            meant = [name for name in NAMES if name[:2] == "--"] if word[:2] == "--" else []
            sure = [begin] if begin in NAMES else get_close_matches(begin, meant, 1, 0.9)
            if sure:
                hint = f"{sure[0]} {value}" if sign else sure[0]
                reason = f"is not known; did you mean {hint}?"
                raise InputError(reason, field=f"{word:.40}", suggestion=hint)
            near = get_close_matches(begin, sorted(KNOWN), 1, 0.75)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"--flags: {word:.60} is not known: repeated, not predicted{hint}"


@dataclass(frozen=True)
class Told:
    """What a command line says of a run, beside where layers and experts lie.

    Attributes
    ----------
    room, slot
        Tokens that the cache has room for, and of those one request's; None if it does not say.
    ubatch, threads, numa
        As `moeopt.problems.split.generate.Options` and the machine have them; None likewise.
    kv
        Types of keys and values in the cache; None likewise.
    given
        Flags that a printed command repeats.
    placing, source
        Words that say where layers and experts lie, and where the model's file is; none: unsaid.
    notes
        What is not predicted, or not known.
    """

    room: int | None = None
    slot: int | None = None
    ubatch: int | None = None
    threads: int | None = None
    numa: NumaMode | None = None
    kv: tuple[KvType | None, KvType | None] = (None, None)
    given: tuple[Flag, ...] = ()
    placing: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def told(
    line: CommandLine, model: ModelShape, machine: Machine, runtime: str = "llama.cpp"
) -> Told:
    """Return what a command line means for a model on a machine.

    Raises
    ------
    InputError
        If a value is none, or the runtime would refuse what is asked.
    """
    notes, given = list(unknown(line)), line.given
    room, slot = _room(line, model)
    slots = line.whole("-np", -1) or 0
    if slots > 1 and slot is not None:
        notes.append(
            f"--flags: -np {slots}: {room:,} tokens of cache, {slot:,} for a request; the speed is"
            " that of one request alone"
        )
    elif slots > 1:
        notes.append(f"--flags: -np {slots}: the speed is that of one request alone")
    kv = _kv_type(line, "-ctk", runtime), _kv_type(line, "-ctv", runtime)
    flash = "-no-fa" not in given and not line.off("-fa")
    if kv[1] is not None and KV_TYPES.get(kv[1], 0.0) < 16 and not flash:
        raise InputError(
            f"{kv[1]} needs flash attention: leave out -fa off, or take -ctv f16", field="-ctv"
        )
    if not flash:
        notes.append("--flags: -fa off: predicted as with flash attention")
    if "-nkvo" in given and machine.gpus and given.get("-ngl") != "0":
        raise InputError(
            "a KV cache in host memory beside layers on a GPU is not predicted; leave it out, or"
            " take -ngl 0",
            field="-nkvo",
        )
    if "-mg" in given and given.get("-sm") != "none":
        line.whole("-mg", -1)
        notes.append("--flags: -mg counts with -sm none alone: it changes nothing here")
    ubatch, said = _ubatch(line, room)
    threads, too_many = _threads(line, machine)
    numa, about = _numa(line, machine)
    return Told(
        room=room,
        slot=slot,
        ubatch=ubatch,
        threads=threads,
        numa=numa,
        kv=kv,
        given=tuple(flag for flag in line.flags if flag.name not in {*ANEW, *SOURCE}),
        placing=line.repeated(PLACING),
        source=line.repeated(SOURCE),
        notes=(*notes, *said, *too_many, *about),
    )


def _room(line: CommandLine, model: ModelShape) -> tuple[int | None, int | None]:
    """Return the tokens that the cache has room for, and of those one request's.

    The model's own length for 0, for each of several slots; what is given is shared among them.
    """
    asked, slots = line.whole("-c"), max(1, line.whole("-np", -1) or 1)
    unified = "-kvu" in line.given or slots == 1
    if asked is None:
        return None, None
    if asked > MOST_CONTEXT:
        raise InputError(f"must be at most {MOST_CONTEXT}, not {asked}", field="-c")
    if asked:
        return asked, asked if unified else asked // slots
    length = model.context_length
    if length is None:
        raise InputError(
            f"0 is the model's own context length, which model {model.name} does not state"
            " (context_length): write the number",
            field="-c",
        )
    return length if unified else length * slots, length


def _kv_type(line: CommandLine, flag: str, runtime: str) -> KvType | None:
    if flag not in line.given:
        return None
    known = {**KV_TYPES, **(OF_IK if runtime == "ik_llama.cpp" else {})}
    if line.given[flag] not in known:
        raise InputError(
            f"must be one of {', '.join(known)}, not {line.given[flag]!r:.40}", field=flag
        )
    return line.given[flag]


def _ubatch(line: CommandLine, room: int | None) -> tuple[int | None, list[str]]:
    """Return the tokens that are computed together: at most a batch, and at most the context."""
    batch, own = line.whole("-b", 1), line.whole("-ub", 1)
    if batch is None and own is None and room is None:
        return None, []
    most = min(BATCH if batch is None else batch, room or 2**24)
    asked = 512 if own is None else own
    if own is not None and own > most:
        why = f"-c {room}" if room == most else f"-b {most}"
        return most, [f"--flags: -ub {own}: at most {why} tokens are computed together: {most}"]
    return (None if own is None and asked <= most else min(asked, most)), []


def _threads(line: CommandLine, machine: Machine) -> tuple[int | None, list[str]]:
    asked = line.whole("-t", -(10**9))
    if asked is None or asked < 1 or not machine.nodes:  # the runtime's own choice
        return None, []
    have = cores_of(machine, "interleaved").threads
    if have is not None and asked > have:
        return asked, [f"--flags: -t {asked}: predicted as {have}, as many as the machine has"]
    return asked, []


def _numa(line: CommandLine, machine: Machine) -> tuple[NumaMode | None, list[str]]:
    asked = line.given.get("--numa")
    if asked is None:
        return None, []
    if asked not in NUMA:
        raise InputError(f"must be one of {', '.join(NUMA)}, not {asked!r:.40}", field="--numa")
    if len(machine.nodes) < 2:
        return None, [f"--flags: --numa {asked}: changes nothing: the machine has one node here"]
    if asked == "numactl":
        return NUMA[asked], ["--flags: --numa numactl: predicted as --numa distribute"]
    return NUMA[asked], []
