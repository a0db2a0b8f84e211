"""Machines and models by name: one JSON file each.

The workload that stands for a model's routing where nobody has a trace or counts of it.

Published routing that may be shared is of two kinds of models: many small experts
(DeepSeek-V2-Lite, 64 of them) and few large ones (Mixtral-8x7B, 8). A model takes the law of its
own kind; the law is stretched to its experts and layers, and the sentence that comes with it says
whose it is. The much steeper skew of TriMoE 3.1 (`trimoe-skew`) is no default: no trace at hand has
it.
"""

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import read_object
from moeopt.core.wording import meant, suggested
from moeopt.sim.machines.fields import fields_error
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.gguf.file import is_gguf
from moeopt.sim.models.gguf.model import model_from_gguf
from moeopt.sim.models.hf_config import is_config_json, model_from_config
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.workload import Workload

M = TypeVar("M", bound=Frozen)

FOLDER = Path(__file__).parent

LONGEST = 300
"""Most characters of an unknown name that are repeated."""


def names(kind: str) -> list[str]:
    """Return the names of the presets of a kind: "machines", "models" or "workloads"."""
    return sorted(path.stem for path in (FOLDER / kind).glob("*.json"))


def get_machine(name_or_file: Machine | str | Path) -> Machine:
    """Return a machine: a preset, parts by name, or what a JSON file holds; a machine as it is.

    Parameters
    ----------
    name_or_file
        A preset (``moeopt list machines``); ``GPU+HOST``, or ``HOST`` for a machine without a GPU
        (``moeopt list gpus``, ``moeopt list hosts``); or a machine file, every field of which is in
        `moeopt machine fields`.

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
    >>> machine.gpu.hbm_gb_s, machine.dram.striped_gb_s, machine.pcie_gb_s
    (1008.0, 460.8, 31.5)
    """
    if isinstance(name_or_file, Machine):
        return name_or_file
    if isinstance(name_or_file, str) and not _is_file(Path(name_or_file)):
        from moeopt.sim.presets import parts

        if parts.is_composed(name_or_file):
            return parts.compose(name_or_file)
    return find("machines", Machine, name_or_file)


def get_model(name_or_file: ModelShape | str | Path) -> ModelShape:
    """Return a model preset, or the model in a JSON file; errors as in `get_machine`.

    The file holds a model shape, is a model's Hugging Face ``config.json``, which is recognised by
    its keys, or a GGUF file or one of its shards, of which only the header is read.
    """
    if isinstance(name_or_file, ModelShape):
        return name_or_file
    path = _path("models", name_or_file)
    if is_gguf(path):
        return model_from_gguf(path)
    data = read_object(path)
    if is_config_json(data):
        return model_from_config(data, path)
    return _validated(ModelShape, path, data)


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
        raise InputError(f"{said} one of {', '.join(known)}", field=kind[:-1])
    return path


def _hint(kind: str, asked: str, known: list[str]) -> tuple[str, str | None]:
    """Return what was meant, in words and by name, if anything is; of machines parts, too."""
    if kind != "machines":
        return meant(asked, known), suggested(asked, known)
    from moeopt.sim.presets import parts

    gpus, hosts = parts.gpu_names(), parts.host_names()
    if asked.lower() in gpus:
        whole = f"{asked.lower()}+{hosts[0]}"
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
