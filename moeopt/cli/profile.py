"""``moeopt profile``: measure an expert on this machine and write a machine file."""

import datetime
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from moeopt.cli.options import Json
from moeopt.core.errors import InputError


def profile_command(
    machine: Annotated[str, typer.Option(help="Preset or JSON file to start from.")],
    model: Annotated[str, typer.Option(help="Preset, config.json, GGUF or JSON file.")],
    out: Annotated[Path, typer.Option(help="Machine file to write; its stem is the name.")],
    device: Annotated[str, typer.Option(help="cpu or gpu.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads; default: torch's.")] = None,
    tokens: Annotated[
        str | None, typer.Option(help="Comma-separated token counts; default: 1,2,4,...,1024.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs per token count; the median counts.")] = 9,
    warm_up: Annotated[int, typer.Option(help="Runs before them that do not count.")] = 3,
    as_json: Json = False,
) -> int:
    """Time an expert's three matrix products with torch; write the machine with the table."""
    from moeopt.cli.machine import check_place
    from moeopt.cli.options import stem
    from moeopt.core.json_files import save
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
    save(measured.model_copy(update={"name": stem(out)}), out)
    table = measured.time_tables[-1]
    if as_json:
        print(json.dumps({"file": str(out)} | table.model_dump(mode="json")))
    else:
        print(f"{out}: {table.source}")
    return 0


def _tokens(text: str) -> tuple[int, ...]:

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--tokens: must be whole numbers with commas between, not {text!r}"
        ) from None


def _show(tokens: int, ns: float) -> None:
    print(f"{tokens} tokens: {ns / 1e6:.3f} ms", file=sys.stderr)
