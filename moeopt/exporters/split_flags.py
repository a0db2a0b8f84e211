"""Flags of llama.cpp and ik_llama.cpp for several GPUs, and a matcher that reads them back.

``-ts`` gives each GPU so many of the offloaded layers, in order, the output layer as one of the
last GPU's; ``-ot PATTERN=DEVICE,...`` puts the tensors in whose names a regular expression is found
elsewhere. A dot stands for any character, so that no character needs a shell's quotes.
"""

import re
from collections.abc import Sequence

from moeopt.core.errors import InputError
from moeopt.problems.split.instance import Instance, Solution

CPU = "CPU"

_OVERRIDE = re.compile(r"blk\.(\d{1,4})\.ffn_\.\+exps=(CPU|CUDA\d{1,3})")


def split_flags(instance: Instance, solution: Solution) -> list[str]:
    """Return the flags that place a split's parts, in pairs of name and value.

    Parameters
    ----------
    instance
        With its GPUs first, called gpu0, gpu1, ...; all other devices are the host.
    solution
        Attention lies on the host first, then on the GPUs by number.

    Raises
    ------
    InputError
        If attention lies in another order, which the runtimes cannot do.
    """
    names = [device.name for device in instance.devices]
    gpus = [number for number, name in enumerate(names) if name.startswith("gpu")]
    at = solution.attention
    rank = {device: place for place, device in enumerate(gpus, start=1)}
    ranks = [rank.get(device, 0) for device in at]
    if ranks != sorted(ranks):
        raise InputError("attention: lies in another order than host, gpu0, gpu1, ...: no -ts does")
    used = [gpu for gpu in gpus if gpu in at or gpu in solution.experts]
    if not used:
        return ["-ngl", "0"]
    layers = sum(device in gpus for device in at)
    flags = ["-ngl", str(layers + 1)]
    if len(used) < len(gpus):
        flags += ["--device", ",".join(f"CUDA{gpus.index(gpu)}" for gpu in used)]
    last = at[-1] if at[-1] in gpus else used[-1]
    if len(used) > 1:
        shares = [at.count(gpu) + (gpu == last) for gpu in used]
        flags += ["-sm", "layer", "-ts", ",".join(map(str, shares))]
    moved = []
    for layer, (home, experts) in enumerate(zip(at, solution.experts, strict=True)):
        if experts < 0 or experts == home or (experts not in gpus and home not in gpus):
            continue
        where = f"CUDA{gpus.index(experts)}" if experts in gpus else CPU
        moved.append(f"blk.{layer}.ffn_.+exps={where}")
    return [*flags, "-ot", ",".join(moved)] if moved else flags


def read_split_flags(flags: Sequence[str], layers: int, gpus: int) -> tuple[list[str], list[str]]:
    """Return the device of each layer's attention and experts, as the runtimes read the flags.

    Parameters
    ----------
    layers, gpus
        Of the model and the machine.

    Raises
    ------
    InputError
        If an override is none that `split_flags` writes.
    """
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    offloaded = min(int(given["-ngl"]), layers + 1)
    names = [f"CUDA{number}" for number in range(gpus)]
    devices = given["--device"].split(",") if "--device" in given else names
    shares = [int(share) for share in given["-ts"].split(",")] if "-ts" in given else [1]
    first = layers + 1 - offloaded
    attention = [CPU] * min(first, layers)
    for layer in range(first, layers):
        passed = 0
        for device, share in zip(devices, shares, strict=False):
            passed += share
            if (layer - first) * sum(shares) < passed * offloaded:
                attention.append(device)
                break
    experts = attention[:]
    for part in given.get("-ot", "").split(","):
        if not part:
            continue
        found = _OVERRIDE.fullmatch(part)
        if found is None:
            raise InputError("-ot: is not an override of the experts of one block")
        experts[int(found[1])] = found[2]
    return attention, experts
