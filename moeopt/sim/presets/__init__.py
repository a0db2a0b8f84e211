"""Machines and models by name: one JSON file each.

The workload that stands for a model's routing where nobody has a trace or counts of it.

Published routing that may be shared is of two kinds of models: many small experts
(DeepSeek-V2-Lite, 64 of them) and few large ones (Mixtral-8x7B, 8). A model takes the law of its
own kind; the law is stretched to its experts and layers, and the sentence that comes with it says
whose it is. The much steeper skew of TriMoE 3.1 (`trimoe-skew`) is no default: no trace at hand has
it.
"""

import re
import warnings
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError, MoeoptWarning, expect
from moeopt.core.json_files import read_object
from moeopt.core.wording import meant, shortened, suggested
from moeopt.sim.machines.fields import fields_error
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.workload import Workload

M = TypeVar("M", bound=Frozen)

FOLDER = Path(__file__).parent

FEW = 6
"""How many names are listed where none is like an unknown one."""

LONGEST = 300
"""Most characters of an unknown name that are repeated."""


def names(kind: str) -> list[str]:
    """Return the names of the presets of a kind: "machines", "models" or "workloads"."""
    return list(_names(kind))


@cache
def _names(kind: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (FOLDER / kind).glob("*.json")))


def get_machine(name_or_file: Machine | str | Path) -> Machine:
    """Return a machine from a preset, from parts by name, or from a JSON file.

    Parameters
    ----------
    name_or_file
        A preset (``moeopt list machines``); ``GPU+HOST``, or ``HOST`` for a machine without a GPU
        (``moeopt list gpus``, ``moeopt list hosts``), also as tools print them: ``Apple M3 Max``,
        ``NVIDIA GeForce RTX 4090+AMD Ryzen 9 9950X``, with a warning; or a machine file (its
        fields: `moeopt machine fields`).

    Returns
    -------
    Machine
        With the source of every number in ``sources``.

    Raises
    ------
    InputError
        If there is neither such a preset nor such a file, or the file is not a valid machine: the
        message lists everything that is wrong.

    Examples
    --------
    >>> import moeopt
    >>> machine = moeopt.get_machine("rtx4090+epyc-9004")
    >>> machine.device("gpu0").memory.gb_s, machine.device("numa0").memory.gb_s
    (1008.0, 460.8)
    >>> machine.pcie.gb_s
    31.5
    """
    if isinstance(name_or_file, Machine):
        return name_or_file
    if isinstance(name_or_file, str) and not _is_file(Path(name_or_file)):
        from moeopt.sim.presets import parts

        if name_or_file not in names("machines"):
            whole = machine_called(name_or_file)
            if whole is not None:
                _say(f"{shortened(name_or_file)} is taken for machine {whole}")
                return _machine_in(_path("machines", whole))
            if parts.is_composed(name_or_file):
                _say(*parts.taken(name_or_file)[1])
                return parts.compose(name_or_file)
    path = _path("machines", name_or_file)
    if path.parent == FOLDER / "machines":
        return _validated(Machine, path, read_object(path))
    return _machine_in(path)


def _machine_in(path: Path) -> Machine:
    """Return the machine in a file, of the form of today or the first one."""
    from moeopt.sim.machines.old_files import converted, is_old, placement_of

    data = read_object(path)
    if not is_old(data):
        return _validated(Machine, path, data)
    made = _validated(Machine, path, converted(data, path))
    if (way := placement_of(data)) is not None:
        _say(
            f"{path}: cpu.numa.placement: {way} is no field of a machine any more: how weights lie"
            " on several nodes is said to what runs (plan --numa)"
        )
    return made


def get_model(name_or_file: ModelShape | str | Path) -> ModelShape:
    """Return a model preset, or the model in a JSON file; errors as in `get_machine`.

    The file holds a model shape, is a model's Hugging Face ``config.json``, which is recognised by
    its keys, or a GGUF file or one of its shards, of which only the header is read. A name on
    Hugging Face, ``zai-org/GLM-4.5-Air``, is the preset of that model.
    """
    if isinstance(name_or_file, ModelShape):
        return name_or_file
    if isinstance(name_or_file, str) and not _is_file(Path(name_or_file)):
        name_or_file = _preset_called(name_or_file)
    path = _path("models", name_or_file)
    if path.parent == FOLDER / "models":
        return _validated(ModelShape, path, read_object(path))
    from moeopt.sim.models.config.model import is_config_json, model_from_config
    from moeopt.sim.models.gguf.file import is_gguf
    from moeopt.sim.models.gguf.model import model_from_gguf

    if is_gguf(path):
        return model_from_gguf(path)
    data = read_object(path)
    if is_config_json(data):
        return model_from_config(data, path)
    return _validated(ModelShape, path, data)


def _say(*taken: str) -> None:
    """Warn of what was taken for what."""
    if taken:
        warnings.warn("; ".join(taken), MoeoptWarning, stacklevel=3)


WHOLE = {"gb10": "dgx-spark", "dgxspark": "dgx-spark", "strixhalo": "ryzen-ai-max-395"}
"""Plain spelling of a chip -> the machine preset that it is."""


def machine_called(reported: str) -> str | None:
    """Return the preset of a machine that is one chip: ``Apple M3 Max``, ``NVIDIA GB10``."""
    from moeopt.sim.presets.parts.called import plain

    said = plain(reported.split("w/")[0])
    ours = {plain(name): name for name in names("machines")}
    if re.match(r"\s*(?:apple[ -])?m\d", reported[:LONGEST], re.IGNORECASE):
        return ours.get(said)
    return WHOLE.get(said) or ours.get(said if said.startswith("ryzenaimax") else "")


TUNED = re.compile(r"-(instruct|chat|base|it|thinking|hf|gguf|v0\.\d|\d{4})$")
"""End of the name of a model tuned from another, or packed anew: its sizes are the same."""

WIDTH = re.compile(r"[-:]((?:ud-)?(?:i?q\d\w{0,9}|tq\d_\d|mxfp4\w{0,9}|bf16|f16))$")
"""Quantisation at the end of a name on Hugging Face or Ollama."""


def _preset_called(name: str) -> str:
    """Return the preset of the model that Hugging Face or Ollama calls so, or the name as it is."""
    said = _plainly(name)
    for last in (said, said.partition("_")[2]):  # bartowski/zai-org_GLM-4.5-Air-GGUF
        if (found := _untuned(last)) is not None:
            if found != last:
                _say(f"{shortened(name)} is taken for model {found}")
            return found
    return name


def _plainly(name: str) -> str:
    """Return a model's name without its owner, in small letters: ``gpt-oss:120b`` has a hyphen."""
    return name.rstrip("/").rpartition("/")[2].lower()[:LONGEST].replace(":", "-")


def _untuned(last: str) -> str | None:
    """Return the preset that a name begins with, followed by `TUNED` alone; None if none is."""
    known = names("models")
    while last not in known and (short := TUNED.sub("", last)) != last:
        last = short
    return last if last in known else None


def _with_width(asked: str) -> str | None:
    """Return what to give for a name that ends with a quantisation; None if it is none of ours."""
    said = _plainly(asked)
    found = WIDTH.search(said)
    if found is None or (model := _untuned(said[: found.start()])) is None:
        return None
    if found[1].startswith("ud-"):
        return f"it is {model}, whose types by tensor the GGUF file alone says: --model FILE.gguf"
    return (
        f"the quantisation is named by an option, as in --model {model} --bits {found[1].upper()}"
    )


def find(kind: str, model: type[M], name_or_file: str | Path) -> M:
    """Return the preset called so, or what the file of that name holds."""
    path = _path(kind, name_or_file)
    return _validated(model, path, read_object(path))


def _path(kind: str, name_or_file: str | Path) -> Path:
    what = f"a {kind[:-1]}, the name of one or a path"
    expect(kind[:-1], name_or_file, str, Path, what=what)
    known = names(kind)
    if str(name_or_file) in known:
        return FOLDER / kind / f"{name_or_file}.json"
    path = Path(name_or_file)
    if not _is_file(path):
        asked = repr(str(path) if len(str(path)) <= LONGEST else f"{str(path)[:LONGEST]}...")
        said = f"{asked} is neither a file nor"
        hint, suggestion = _hint(kind, str(path), known)
        if hint:
            reason = f"{said} a preset{hint} (moeopt list {kind})"
            raise InputError(reason, field=kind[:-1], suggestion=suggestion)
        some = ", ".join(known[:FEW])
        more = f" and {len(known) - FEW} more (moeopt list {kind})" if len(known) > FEW else ""
        raise InputError(f"{said} one of {some}{more}", field=kind[:-1])
    return path


def _hint(kind: str, asked: str, known: list[str]) -> tuple[str, str | None]:
    """Return what was meant, in words and by name, if anything is; of machines parts, too."""
    if kind == "models" and (whole := _with_width(asked)) is not None:
        return f"; {whole}", None
    if kind != "machines":
        last = asked.rstrip("/").rpartition("/")[2]  # without the organisation or the folder
        return meant(last, known), suggested(last, known)
    from moeopt.sim.presets import parts

    hosts = parts.host_names()
    if re.search(r"\b(?:i?mac|apple)", asked[:LONGEST], re.IGNORECASE):
        macs = [name for name in known if re.match(r"m\d", name)]
        return f"; a Mac is one of {', '.join(macs)}", None
    several = re.match(r"(\d{1,6})x([^+]+)", asked)
    if several and parts.gpu_called(several[2]) is not None:
        node = f"{min(int(several[1]), parts.MOST_GPUS)}x{parts.gpu_called(several[2])}+xeon-spr"
        more = (
            "" if int(several[1]) <= parts.MOST_GPUS else "; for more, `--ep-size` needs no machine"
        )
        return f"; a node has 1 to {parts.MOST_GPUS} GPUs and a host, as in {node}{more}", node
    if (gpu := parts.gpu_called(asked)) is not None:
        whole = f"{gpu}+ryzen-am5"
        return f"; it is a GPU: name the host, too, as in {whole}", whole
    return meant(asked, [*known, *hosts]), suggested(asked, [*known, *hosts])


def _validated(model: type[M], path: Path, data: dict[str, object]) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise fields_error(model, error, path) from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long, a folder closed to us
        return False


FEW_EXPERTS = 16
"""Up to so many experts per layer a model is of Mixtral's kind; Phi-3.5-MoE has 16."""

MEASURED_ON = {"esft-deepseek-v2-lite": "deepseek-v2-lite", "hdmoe-mixtral": "mixtral-8x7b"}
"""Workload -> the model preset whose routing it was fitted to."""


def default_workload(model: ModelShape) -> tuple[Workload, str]:
    """Return a model's default workload, and where it comes from in one sentence.

    Parameters
    ----------
    model
        Any; one with the layers, experts and top-k of DeepSeek-V2-Lite or Mixtral-8x7B counts as
        that model.

    Returns
    -------
    tuple
        The workload, and a line that names it, its source, and the model that it was measured on
        if that is another one.
    """
    few = model.routed_experts <= FEW_EXPERTS
    name = "hdmoe-mixtral" if few else "esft-deepseek-v2-lite"
    workload = find("workloads", Workload, name)
    origin = get_model(MEASURED_ON[name])
    own = _key(origin) == _key(model)
    whose = "" if own else f", measured on {origin.name}, not on {model.name}"
    return workload, f"default workload {name}{whose}; source: {workload.source}"


def _key(model: ModelShape) -> tuple[int, int, int]:
    return model.layers, model.routed_experts, model.top_k
