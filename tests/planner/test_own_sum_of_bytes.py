"""Plans fit: bytes summed here, from published shapes and the flags that a plan prints.

Nothing of the package counts here but what it printed: sizes are those of the models' config.json,
bits those of the formats (llama.cpp's blocks of 32 or 256 weights with their scales), placement is
read off the command line by the rules that llama.cpp describes (`llama_cpp_rules`), and capacities
are those of the cards' data sheets. Buffers of the runtime and what is kept free are as printed.
"""

import re
import shlex
from dataclasses import dataclass

import pytest

import moeopt
from tests.exporters.llama_cpp_rules import split_of

MIB = 2**20
CONTEXT = 32768

BITS = {"Q8_0": 8.5, "Q6_K": 6.5625, "F16": 16.0, "f16": 16.0, "q8_0": 8.5, "F32": 32.0}
BITS |= {"MXFP4": 4.25}
"""A weight's share of its block: 32 of 8 bits and a half float, 256 of 210 bytes, ..."""

GIB = {"rtx3090": 24, "rtx4090": 24, "rtx5090": 32, "a100": 80, "h100": 80, "rx9070xt": 16}
"""Of a card's memory; 192 GiB for all of an M2 Ultra."""


@dataclass(frozen=True)
class Shape:
    """What a config.json says: widths, layers and heads; latent ranks in place of heads."""

    layers: int
    hidden: int
    experts: int
    width: int
    vocabulary: int
    heads: tuple[int, int, int] = (0, 0, 0)
    latent: tuple[int, int] = (0, 0)
    dense: int = 0
    dense_width: int = 0
    shared: int = 0
    window: int | None = None

    @property
    def attention(self) -> int:
        """Weights of a layer's attention: query and output, key and value; or MLA's six."""
        if not self.latent[0]:
            heads, groups, width = self.heads
            return 2 * self.hidden * width * heads + 2 * self.hidden * width * groups
        heads, query = self.latent
        down_q, up_q = self.hidden * query, query * heads * (128 + 64)
        if not query:
            up_q = self.hidden * heads * (128 + 64)
        down_kv, up_kv = self.hidden * (512 + 64), 512 * heads * (128 + 128)
        return down_q + up_q + down_kv + up_kv + heads * 128 * self.hidden

    @property
    def expert(self) -> int:
        """Weights of one expert: gate, up and down."""
        return 3 * self.hidden * self.width

    def cached(self, layer: int) -> int:
        """Numbers in a layer's cache; every second layer with a window sees all."""
        if self.latent[0]:
            return (512 + 64) * CONTEXT
        tokens = CONTEXT if self.window is None or layer % 2 else self.window
        return 2 * self.heads[1] * self.heads[2] * tokens

    def rest(self, layer: int, bits: float, router: float) -> float:
        """Bytes of a layer beside routed experts and cache."""
        weights, scores = self.attention, 0
        if layer < self.dense:
            weights += 3 * self.hidden * self.dense_width
        else:
            weights += self.shared * self.expert
            scores = self.hidden * self.experts
        return (weights * bits + scores * router) / 8


SHAPES = {
    "glm-4.5-air": Shape(46, 4096, 128, 1408, 151552, (96, 8, 128), dense=1, dense_width=10944,
                         shared=1),
    "qwen3-30b-a3b": Shape(48, 2048, 128, 768, 151936, (32, 4, 128)),
    "qwen3-235b-a22b": Shape(94, 4096, 128, 1536, 151936, (64, 4, 128)),
    "gpt-oss-120b": Shape(36, 2880, 128, 2880, 201088, (64, 8, 64), window=128),
    "mixtral-8x7b": Shape(32, 4096, 8, 14336, 32000, (32, 8, 128)),
    "deepseek-v2-lite": Shape(27, 2048, 64, 1408, 102400, latent=(16, 0), dense=1,
                              dense_width=10944, shared=2),
    "deepseek-v3": Shape(61, 7168, 256, 2048, 129280, latent=(128, 1536), dense=3,
                         dense_width=18432, shared=1),
}  # fmt: skip

PAIRS = [
    ("rtx4090+epyc-9004", "glm-4.5-air", "Q8_0"),
    ("rtx5090+ryzen-am5", "gpt-oss-120b", "MXFP4"),
    ("2xrtx3090+epyc-7002", "qwen3-30b-a3b", "Q8_0"),
    ("rtx4090+ryzen-am5", "deepseek-v2-lite", "Q8_0"),
]
MORE = [
    ("3xrtx3090+epyc-7003", "gpt-oss-120b", "MXFP4"),
    ("rtx3090+epyc-7002", "mixtral-8x7b", "Q8_0"),
    ("rx9070xt+ryzen-am5", "qwen3-30b-a3b", "Q6_K"),
    ("h100+xeon-spr", "qwen3-235b-a22b", "Q8_0"),
    ("a100+xeon-spr", "deepseek-v3", "Q8_0"),
    ("rtx4090+2xepyc-9004", "qwen3-235b-a22b", "Q6_K"),
    ("2xrtx4090+epyc-9004", "glm-4.5-air", "Q8_0"),
    ("2xrtx5090+2xepyc-9004", "deepseek-v3", "Q8_0"),
    ("4xrtx3090+epyc-7003", "qwen3-235b-a22b", "Q8_0"),
    ("6xrtx3090+epyc-7003", "mixtral-8x7b", "Q8_0"),
    ("7xrtx3090+epyc-7003", "deepseek-v3", "Q8_0"),
]


def placed(words: list[str], layers: int, gpus: int) -> tuple[list[str], list[str]]:
    """Return where each layer's attention and its experts lie, by a command's flags."""
    flags = words[words.index("-ngl") : words.index("-fa")]
    if "--n-cpu-moe" in flags:
        assert flags[:2] == ["-ngl", "99"]
        off = int(flags[flags.index("--n-cpu-moe") + 1])
        return ["CUDA0"] * layers, ["CPU"] * off + ["CUDA0"] * (layers - off)
    return split_of(flags, layers, gpus)


@pytest.mark.parametrize(
    ("machine", "model", "bits"),
    [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in MORE)],
)
def test_what_a_plan_prints_fits(machine: str, model: str, bits: str) -> None:
    """Each device: as much as is said, but for parts rounded up to MiB, and 0 MiB over."""
    found = moeopt.plan(machine, model, bits=bits, context=CONTEXT)
    shape, words = SHAPES[model], shlex.split(found.command or "")
    [(count, card)] = re.findall(r"^(?:(\d)x)?([a-z0-9]+)\+", machine)
    gpus = int(count or 1)
    attention, experts = placed(words, shape.layers, gpus)
    others = BITS["Q8_0" if bits == "MXFP4" else bits]
    cache = words[words.index("-ctk") + 1] if "-ctk" in words else "f16"
    assert words[words.index("-c") + 1] == str(CONTEXT)
    names = [*(f"CUDA{number}" for number in range(gpus)), "CPU"]
    own = dict.fromkeys(names, 0.0)
    for layer, (at, home) in enumerate(zip(attention, experts, strict=True)):
        own[at] += shape.rest(layer, others, BITS["F32"])
        own[at] += shape.cached(layer) * BITS[cache] / 8
        if layer >= shape.dense:
            own[home] += shape.experts * shape.expert * BITS[bits] / 8
    table = shape.vocabulary * shape.hidden * others / 8
    own[attention[-1]] += table  # the head; the embedding is read from host memory
    memory = found.best.memory_mib
    if set(memory) == {"GPU memory", "host memory"}:
        own["CPU"] += table
        said = [*memory.values()]
    else:
        said = [memory[f"gpu{number}"] for number in range(gpus)] + [memory["host"]]
    rounded = 2 * shape.layers if "gpu0" in memory else 1
    for name, parts in zip(names, said, strict=True):
        kept = sum(parts.get(part, 0.0) for part in ("buffers", "reserved"))
        used = own[name] / MIB + kept
        assert used <= sum(parts.values()) + 1e-6 <= used + rounded + 1, name
        if name != "CPU":
            assert sum(parts.values()) <= GIB[card] * 1024, f"{name}: over"
            assert used <= GIB[card] * 1024
