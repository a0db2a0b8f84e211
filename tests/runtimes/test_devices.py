"""Splits over several GPUs, carried out by llama.cpp: RPC servers stand in for the GPUs.

Its log says on which device each layer is, which tensors are put elsewhere, and the bytes on each
device: those of just the planned tensors.
"""

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import moeopt
from benchmarks.real.hand_over import MATRICES, OVERRIDDEN, rpc_server
from tests.planner.test_plan_split import by_tensor, random_split
from tests.rooms.cli import run
from tests.rooms.sim import Context, Setting, device_times, get_model, plain_machine, read_gguf
from tests.rooms.split import Instance, Solution
from tests.runtimes.consumers import llama_cpp, needs
from tests.sim.hardware.machine_data import put

pytestmark = pytest.mark.runtimes

MIB = 2**20
ASSIGNED = re.compile(r"layer +(\d+) assigned to device (\w+)")
BUFFER = re.compile(r"(\S+) model buffer size = +([\d.]+) MiB")
CACHED = re.compile(r"layer +(\d+): dev = (\w+)")
SHARED = re.compile(r"Setting default device in layer +(\d+) to (\d+)")
MORE = ["-p", "text", "-n", "2", "-no-cnv", "-v", "--no-warmup"]


def model_of(root: Path, folder: Path, layers: int, more: int = 0) -> Path:
    """Return a small model; `more` blocks predict further tokens, and are not loaded."""
    needs("gguf")
    file = folder / "small.gguf"
    script = str(root / "benchmarks" / "real" / "small_model.py")
    shape = ["--layers", str(layers), "--experts", "8", "--nextn", str(more)]
    subprocess.run([sys.executable, script, str(file), *shape], check=True)
    return file


def started(words: Sequence[str], gpus: int, folder: Path, runtime: str = "llama.cpp") -> str:
    """Run a command line with a server for each GPU, and return the log with the GPUs' names."""
    programs, names = llama_cpp(runtime).programs, [f"CUDA{number}" for number in range(gpus)]
    of_ik = runtime == "ik_llama.cpp"
    with ExitStack() as stack:
        addresses = [stack.enter_context(rpc_server(programs)) for _ in names]
        buffers = {name: f"RPC0[{at}]" for name, at in zip(names, addresses, strict=True)}
        line = list(words)
        if of_ik:  # a build for the CPU alone counts the CPU as a device
            at = line.index("--device") + 1 if "--device" in line else 0
            line += [] if at else ["--device", ",".join(buffers.values())]
        for flag in {"-ot", "--device"} & set(words):
            at = line.index(flag) + 1
            for number, name in enumerate(names):
                stand_in = buffers[name] if flag == "-ot" or of_ik else f"RPC{number}"
                line[at] = re.sub(rf"{name}\b", stand_in, line[at])
        program = str(programs / ("llama-cli" if of_ik else "llama-completion"))
        more = [word for word in MORE if not of_ik or word != "-no-cnv"]
        done = subprocess.run(
            [program, "--rpc", ",".join(addresses), *line, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={"HOME": str(folder)},
            cwd=folder,  # ik_llama.cpp leaves a log there
            text=True,
            errors="replace",
            check=False,
            timeout=300,
        )
        log = done.stdout
    (folder / "log.txt").write_text(log)
    assert done.returncode == 0 or of_ik, log[-3000:]  # what it computes does not matter there
    for name, buffer in buffers.items():
        log = log.replace(buffer, name)
    return re.sub(r"device RPC(\d+)|dev = RPC(\d+)", lambda m: m[0].replace("RPC", "CUDA"), log)


def assert_as_planned(log: str, model: Path, instance: Instance, solution: Solution) -> None:
    """Every layer's attention and cache, every tensor of its experts, and the bytes."""
    gpus = sum(device.name.startswith("gpu") for device in instance.devices)
    names = [*(f"CUDA{number}" for number in range(gpus)), *["CPU"] * 8]
    attention = [names[home] for home in solution.attention if home >= 0]
    layers, tensors = len(attention), len(solution.experts) // len(attention)
    experts = [names[home] for home in solution.experts for _ in range(3 // tensors)]
    found = {int(layer): device for layer, device in ASSIGNED.findall(log)}
    assert [found[layer] for layer in range(layers)] == attention
    caches = {int(layer): device for layer, device in CACHED.findall(log)}
    assert [caches[layer] for layer in range(layers)] == attention
    moved = {
        f"blk.{layer}.ffn_{kind}_exps.weight": home
        for layer, at in enumerate(attention)
        for kind, home in zip(MATRICES, experts[3 * layer : 3 * layer + 3], strict=True)
        if at != home
    }
    assert {name: home.replace("_REPACK", "") for name, home in OVERRIDDEN.findall(log)} == moved
    held: Counter[str] = Counter()
    for tensor in read_gguf(model).tensors:
        block = re.match(r"blk\.(\d+)\.", tensor.name)
        home = attention[int(block[1])] if block else found[max(found)]
        home = "CPU" if tensor.name.startswith("token_embd") else moved.get(tensor.name, home)
        held[home] += tensor.size
    sizes: Counter[str] = Counter()
    for buffer, mib in BUFFER.findall(log):
        sizes[re.sub("_.*", "", buffer)] += round(float(mib) * MIB)
    assert set(sizes) == set(held), (sizes, held)
    for device, size in held.items():
        assert abs(sizes[device] - size) < 0.02 * MIB, (device, sizes, held)


@pytest.mark.parametrize(("more", "made"), [(0, random_split), (1, random_split), (0, by_tensor)])
@pytest.mark.parametrize("seed", range(6))
def test_every_split_is_carried_out(
    seed: int,
    more: int,
    made: Callable[[int], tuple[Instance, Solution]],
    root: Path,
    tmp_path: Path,
) -> None:
    """Random ones: layers on the host, GPUs left out, experts beside another GPU's attention."""
    instance, solution = made(seed)
    layers = sum(home >= 0 for home in solution.attention)
    model = model_of(root, tmp_path, layers, more)
    text = moeopt.export(solution, instance, to="llama.cpp", model=model).text
    log = started(["-m", str(model), *shlex.split(text)], len(instance.devices) - 1, tmp_path)
    assert_as_planned(log, model, instance, solution)


@pytest.mark.parametrize("seed", range(8))
def test_ik_llama_cpp_shares_out_its_buffers(seed: int, root: Path, tmp_path: Path) -> None:
    """Ubatches of 2,048 tokens: a buffer is as large as four layers of this small model."""
    instance, solution = random_split(seed)
    model, gpus = model_of(root, tmp_path, len(instance.layers)), len(instance.devices) - 1
    machine, shape = moeopt.get_machine("2xrtx3090+epyc-7002"), get_model(str(model))
    made = device_times(Setting(machine, shape, context=Context(0, 4096)))
    sizes = zip(made.attention_bytes, made.experts_bytes, strict=True)
    changed = ({"attention_bytes": int(a), "experts_bytes": int(e)} for a, e in sizes)
    rows = zip(instance.layers, changed, strict=True)
    layers = tuple(row.model_copy(update=own) for row, own in rows)
    room = tuple(one.model_copy(update={"capacity": 2**40}) for one in instance.devices)
    instance = instance.model_copy(update={"layers": layers, "devices": room})
    options = {"ubatch": 2048, "context": 4096}
    text = moeopt.export(solution, instance, to="ik_llama.cpp", model=model, options=options).text
    log = started(["-m", str(model), *shlex.split(text)], gpus, tmp_path, "ik_llama.cpp")
    names = [*(f"CUDA{number}" for number in range(gpus)), "CPU"]
    used = sorted({*solution.attention, *solution.experts} - {gpus})
    found = {int(layer): used[int(place)] for layer, place in SHARED.findall(log)}
    if len(used) > 1:
        at = [found.get(layer, gpus) for layer in range(len(instance.layers))]
        assert at == list(solution.attention)
    moved = {
        f"blk.{layer}.ffn_{kind}_exps.weight": names[home]
        for layer, (at, home) in enumerate(zip(solution.attention, solution.experts, strict=True))
        for kind in MATRICES
        if at != home
    }
    assert dict(OVERRIDDEN.findall(log)) == moved


@pytest.mark.parametrize("gpus", [2, 3])
def test_a_plan_of_several_gpus_is_carried_out(
    gpus: int, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a machine's file to the command line that `plan` prints, run as it is."""
    model = model_of(root, tmp_path, 8)
    machine = tmp_path / "machine.json"
    data = plain_machine(moeopt.get_machine(f"{gpus}xrtx3090+epyc-7002"))
    for number in range(gpus):
        mib = {2: 16, 3: 14}[gpus] - number  # buffers take 10
        put(data, f"devices.gpu{number}.memory.capacity_gib", mib / 1024)
        put(data, f"devices.gpu{number}.gpu.reserve_mib", {"llama.cpp": 4})
    machine.write_text(json.dumps(data))
    words = ["--machine", str(machine), "--model", str(model), "--path", str(model)]
    assert run(["plan", *words, "--work-limit", "5", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    places = [*range(gpus), gpus]
    assert {*plan["experts"], *plan["attention"]} == set(places), plan
    solution = Solution(
        instance="plan", attention=tuple(plan["attention"]), experts=tuple(plan["experts"])
    )
    devices = [moeopt.split.Device(**device) for device in plan["devices"]]
    instance = random_split(0)[0].model_copy(update={"devices": tuple(devices)})
    log = started(shlex.split(plan["command"])[1:], gpus, tmp_path)
    assert_as_planned(log, model, instance, solution)
