"""``moeopt machine``: describe the machine at hand, look at one, change one."""

import datetime
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.core.errors import InputError
from moeopt.core.wording import terminal_text

from .options import Json, Model, command, print_json, print_table, stem

if TYPE_CHECKING:
    from moeopt.sim.machines.machine import Machine
    from moeopt.sim.machines.pasted.conclude import Concluded
    from moeopt.sim.machines.runtimes.calibration import Calibrated


Named = Annotated[
    str,
    Parameter(help="Preset, GPU+HOST, HOST or machine file."),
]
Out = Annotated[Path | None, Parameter("--out", help="Machine file; by default M itself.")]


@command
def detect_command(
    *,
    out: Annotated[Path, Parameter(help="Machine file; its stem is the name.")],
    measure: Annotated[
        bool,
        Parameter(negative="--no-measure", help="Measure bandwidths and rates (some seconds)."),
    ] = True,
    changes: Annotated[
        list[str] | None,
        Parameter("--set", metavar="FIELD=VALUE", help="What cannot be found out; repeatable."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Describe this machine: what the system says, the vendor's data, and measurements."""
    from moeopt.sim.machines.detect import detect_machine

    check_place(out)
    machine = detect_machine(name=stem(out), measure=measure, changes=_changes(changes or []))
    write_machine(machine, out)
    _print(machine, as_json)
    return 0


@command
def show_command(machine: Named, /, *, as_json: Json = False) -> int:
    """Print every field of a machine with its unit and source."""
    from moeopt.sim.presets import get_machine

    _print(get_machine(machine), as_json)
    return 0


@command
def set_command(
    machine: Named,
    fields: Annotated[
        list[str],
        Parameter(help="As in dram.capacity_gib=256: that of every NUMA node."),
    ],
    /,
    *,
    out: Out = None,
    source: Annotated[str | None, Parameter(help="Where the values stand.")] = None,
    as_json: Json = False,
) -> int:
    """Change fields of a machine; a number makes a flat curve, null takes a field out."""
    from moeopt.sim.machines.edit import BY_USER, changed_machine
    from moeopt.sim.presets import get_machine

    place = _place(machine, out)
    before = get_machine(machine)
    changed = changed_machine(before, _changes(fields), source=source or BY_USER)
    found = changed.machine
    written = found.model_copy(update={"name": _name(found, place, out)})
    write_machine(written, place)
    if as_json:
        _print(written, as_json)
    else:
        for row in _changed_rows(written, changed.values):
            print(terminal_text(row))
    return 0


def _changed_rows(machine: "Machine", values: Mapping[str, object]) -> Iterator[str]:
    """Yield what changed, a line for each field, as a machine has it now."""
    from moeopt.sim.machines.rows import machine_rows

    rows = {row.field: row for row in machine_rows(machine)}
    for path, value in values.items():
        row = rows.get(re.sub(r"\.tflops$", ".kernels", path))
        if value is None or row is None:
            yield f"{path}: taken out"
        else:
            yield f"{path}: {row.text} {row.unit}".rstrip()


@command
def read_command(
    files: Annotated[
        list[str],
        Parameter(
            help="Text that tools printed, one or several of them; - is standard input.",
            allow_leading_hyphen=True,
        ),
    ],
    /,
    *,
    machine: Annotated[
        str, Parameter(help="The machine, where the text does not name CPU and GPU.")
    ] = "",
    out: Annotated[Path | None, Parameter("--out", help="Machine file to write.")] = None,
    as_json: Json = False,
) -> int:
    """Read what tools printed about a machine; print facts, and the machine that follows."""
    from moeopt.sim.machines.pasted.conclude import conclude
    from moeopt.sim.machines.pasted.read import facts_of

    for name in files:
        if name.startswith("-") and name != "-":
            raise InputError("is not an option of moeopt machine read", field=name)
    if out is not None:
        check_place(out)
    found = conclude(facts_of((name, _pasted(name)) for name in files), machine)
    if out is not None:
        made = found.described()
        if made is None:
            why = "; ".join(found.notes) or "CPU and GPU are not named"
            raise InputError(f"needs --machine: {why}", field="--out")
        write_machine(made.model_copy(update={"name": stem(out)}), out)
    if as_json:
        print_json(_concluded_as_dict(found))
    else:
        _print_concluded(found, out)
    return 0


def _pasted(name: str) -> str:
    """Return the text of a file or of standard input."""
    from moeopt.core.untrusted import read_bytes
    from moeopt.sim.machines.pasted.facts import MOST_BYTES, decoded

    if name == "-":
        return decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "-")
    return decoded(read_bytes(Path(name), MOST_BYTES), name)


def _concluded_as_dict(found: "Concluded") -> dict[str, object]:
    facts = [
        {"fact": one.name, "value": one.value, "unit": one.unit, "source": one.source}
        for one in found.facts
    ]
    changes = {field: value for field, (value, _) in found.changes.items()}
    return {
        "facts": facts,
        "machine": found.machine,
        "changes": changes,
        "notes": [*found.notes],
    }


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.10g}"


def _print_concluded(found: "Concluded", out: Path | None) -> None:
    rows = [(one.name, _plain(one.value), one.unit, one.source) for one in found.facts]
    cells = [
        [terminal_text(cell) for cell in row] for row in (("fact", "value", "", "read"), *rows)
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    for line in cells:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[3], sep="  ")
    print()
    for note in found.notes:
        print(terminal_text(note))
    changes = [f"{field}={_plain(value)}" for field, (value, _) in found.changes.items()]
    if out is not None:
        print(f"written: {out}")
    elif found.machine is not None and not changes:
        print(f"--machine {shlex.quote(found.machine)}")
    elif changes:
        words = [found.machine or "MACHINE", *changes, "--out", "mine.json"]
        print(shlex.join(["moeopt", "machine", "set", *words]))


@command
def fields_command() -> int:
    """Print every GPU and host that has a name, and what each field of a machine file means."""
    from moeopt.sim.machines.page import machine_page

    print(machine_page(), end="")
    return 0


def _changes(given: list[str]) -> dict[str, object]:
    """Return field -> value; a value is JSON, or else text."""
    from moeopt.core.units import gib_of
    from moeopt.core.wording import shortened

    wrong = [text for text in given if not text.partition("=")[1] or text.startswith("=")]
    if wrong:
        what = ", ".join(repr(shortened(text)) for text in wrong[:5])
        raise InputError(f"FIELD=VALUE: must be as in dram.capacity_gib=256, not {what}")
    changes: dict[str, object] = {}
    for text in given:
        field, _, value = text.partition("=")
        field = field.strip()
        if field in changes:
            raise InputError(f"FIELD=VALUE: {shortened(field)} is given twice")
        try:
            changes[field] = json.loads(value)
        except (ValueError, RecursionError):
            changes[field] = gib_of(field, value) if field.endswith("_gib") else value
    return changes


def _place(machine: str, out: Path | None) -> Path:
    """Return the file to write: the machine's own unless told, which a preset does not have."""
    place = Path(machine) if out is None else out
    if out is None and not place.is_file():
        raise InputError(
            f"is missing: {machine!r} is not a file, and only files are changed", field="--out"
        )
    check_place(place)
    return place


def check_place(out: Path) -> None:
    """Raise InputError unless a machine file can be written there."""
    try:
        if out.is_dir():
            raise InputError(f"{out} is a folder; name a file", field="--out")
        if not out.absolute().parent.is_dir():
            raise InputError(f"{out}: there is no folder {out.absolute().parent}", field="--out")
    except OSError as error:  # a name too long, a folder closed to us
        raise InputError(f"cannot be written: {error.strerror}", field="--out") from None


def _name(machine: "Machine", place: Path, out: Path | None) -> str:
    """Return a new file's stem; a file that is changed in place keeps its name."""
    return machine.name if out is None else stem(place)


def write_machine(machine: "Machine", out: Path) -> None:
    """Write a machine file, absent fields left out."""
    from moeopt.core.json_files import save
    from moeopt.sim.machines.edit import plain_machine

    save(plain_machine(machine), out)


def _print(machine: "Machine", as_json: bool) -> None:
    from moeopt.sim.machines.rows import absent_fields, machine_rows

    rows = machine_rows(machine)
    if as_json:
        for row in rows:
            shown: dict[str, object] = {"field": row.field, "value": row.value}
            print_json(shown | {"unit": row.unit, "source": row.source})
        return
    told = [(row.field, row.text, row.unit, row.source) for row in rows]
    titles = ("field", "value", "unit", "source")
    cells = [[terminal_text(cell) for cell in line] for line in (titles, *told)]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    for line in cells:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[3], sep="  ")
    if absent := absent_fields(machine):
        print(f"absent (moeopt machine fields says what that means): {', '.join(absent)}")


@command
def profile_command(
    *,
    machine: Annotated[str, Parameter(help="Preset or JSON file to start from.")],
    model: Model,
    out: Annotated[Path, Parameter(help="Machine file to write; its stem is the name.")],
    device: Annotated[str, Parameter(help="cpu or gpu.")] = "cpu",
    threads: Annotated[int | None, Parameter(help="CPU threads; default: torch's.")] = None,
    tokens: Annotated[
        str | None, Parameter(help="Comma-separated token counts; default: 1,2,4,...,1024.")
    ] = None,
    repeats: Annotated[int, Parameter(help="Runs per token count; the median counts.")] = 9,
    warm_up: Annotated[int, Parameter(help="Runs before them that do not count.")] = 3,
    as_json: Json = False,
) -> int:
    """Time an expert's three matrix products with torch; write the machine with the table."""
    from moeopt.sim.machines.profile import TOKENS, Settings, profile
    from moeopt.sim.presets import get_machine, get_model

    check_place(out)
    settings = Settings(
        device=device,  # type: ignore[arg-type]  # checked by profile()
        threads=threads,
        tokens=TOKENS if tokens is None else _tokens(tokens),
        repeats=repeats,
        warm_up=warm_up,
    )
    measured = profile(
        get_machine(machine),
        get_model(model),
        settings,
        command=shlex.join(["moeopt", *sys.argv[1:]]),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        on_point=_show,
    )
    write_machine(measured.model_copy(update={"name": stem(out)}), out)
    table = measured.tables[-1]
    if as_json:
        print_json({"file": str(out)} | table.model_dump(mode="json"))
    else:
        print(f"{out}: {table.source}")
    return 0


def _tokens(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"must be whole numbers with commas between, not {text!r}", field="--tokens"
        ) from None


def _show(tokens: int, ns: float) -> None:
    print(f"{tokens} tokens: {ns / 1e6:.3f} ms", file=sys.stderr)


@command
def calibrate_command(
    *,
    machine: Annotated[str, Parameter(help="The machine that was measured.")],
    points: Annotated[
        Path,
        Parameter(
            help="CSV: model, bits, runtime, n_cpu_moe, context, tokens_per_s; or what llama-bench"
            " (md, json, jsonl, csv) or llama-sweep-bench wrote.",
        ),
    ],
    out: Annotated[Path, Parameter(help="Machine file to write.")],
    model: Annotated[str, Parameter(help="The model, where the points do not name it.")] = "",
    bits: Annotated[str, Parameter(help="Its bits, where the points do not say.")] = "",
    runtime: Annotated[str, Parameter(help="For llama-sweep-bench; default: ik_llama.cpp.")] = "",
    n_cpu_moe: Annotated[
        int | None,
        Parameter(help="For llama-sweep-bench: blocks whose experts the CPU computed."),
    ] = None,
    triad: Annotated[
        float | None,
        Parameter(help="GB/s of STREAM's Triad on the whole host: reads reach 4/3 of it."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Fit the overheads of runtimes to two or more measured speeds; print what is left over."""
    from moeopt.sim.machines.edit import set_machine
    from moeopt.sim.machines.paths import TRIAD
    from moeopt.sim.machines.runtimes.calibration import calibrate
    from moeopt.sim.machines.runtimes.measurements import read_measurements
    from moeopt.sim.presets import get_machine

    found = get_machine(machine)
    if triad is not None:
        found = set_machine(found, {TRIAD: triad})
    check_place(out)
    given: dict[str, str] = {"model": model, "bits": bits, "runtime": runtime}
    measured = read_measurements(points, **given, n_cpu_moe=n_cpu_moe)
    calibrated = calibrate(found, measured)
    write_machine(calibrated.machine.model_copy(update={"name": stem(out)}), out)
    if as_json:
        print_json(_as_dict(calibrated))
    else:
        _print_calibrated(calibrated)
    return 0


def _as_dict(found: "Calibrated") -> dict[str, object]:
    points = [
        {
            "model": one.measurement.model.name,
            "bits": one.measurement.model.bits,
            "runtime": one.measurement.runtime,
            "n_cpu_moe": one.measurement.n_cpu_moe,
            "tokens_per_s": one.measurement.tokens_per_s,
            "predicted": round(one.predicted, 4),
            "error": round(one.error, 5),
        }
        for one in found.residuals
    ]
    return {"machine": found.machine.name, "points": points}


def _print_calibrated(found: "Calibrated") -> None:
    rows = []
    for one in found.residuals:
        point = one.measurement
        blocks = "-" if point.n_cpu_moe is None else str(point.n_cpu_moe)
        speeds = (f"{point.tokens_per_s:g}", f"{one.predicted:.4g}", f"{100 * one.error:+.1f} %")
        rows.append((point.model.name, f"{point.model.bits:.4g}", point.runtime, blocks, *speeds))
    columns = ("model", "bits", "runtime", "CPU blocks", "measured", "calibrated", "error")
    print_table(columns, rows, width=100)
