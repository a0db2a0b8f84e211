"""The machines, models and workloads that come with the package, and files like them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError, get_machine
from tests.rooms.sim import FOLDER, Machine, ModelShape, Workload, find, get_model, plain_machine
from tests.rooms.sim import KINDS as TENSORS
from tests.rooms.sim import preset_names as names
from tests.sim.hardware.machine_data import put

KINDS: dict[str, type[Any]] = {"machines": Machine, "models": ModelShape, "workloads": Workload}
PRESETS = [(kind, name) for kind in KINDS for name in names(kind)]


def numbers(value: Any, at: str = "") -> Iterator[str]:
    """Yield the path of every number in a machine; kernels count as one number.

    Time tables name their source themselves; devices and links are called by their names.
    """
    if isinstance(value, list | tuple) and at not in ("tables", "runtimes"):
        for item in value:
            name = item.get("id") or "-".join(item.get("ends", ())) or item["kind"]
            yield from numbers(item, f"{at.removesuffix('.computes')}.{name}")
    elif isinstance(value, dict):
        for key, item in value.items():
            path = f"{at}.{key}" if at else key
            if key == "kernels":
                yield path
            elif key not in ("ends", "sources"):
                yield from numbers(item, path)
    elif isinstance(value, int | float) and at != "schema_version":
        yield at


@pytest.mark.parametrize("name", names("machines"))
def test_every_number_of_a_machine_has_a_source(name: str) -> None:
    """No number without a source, and no source of a number that is not there."""
    machine = get_machine(name)
    assert set(numbers(plain_machine(machine))) == set(machine.sources)
    assert all(len(source) > 10 for source in machine.sources.values())


def test_the_walk_finds_the_numbers_of_a_machine() -> None:
    """Were the walk blind, the test above would prove nothing."""
    found = set(numbers(plain_machine(get_machine("trimoe"))))
    gpu, host = "devices.gpu0", "devices.numa0"
    assert {f"{gpu}.gpu.peak_tflops", f"{gpu}.gpu.kernels", f"{host}.cpu.kernels"} <= found
    assert {f"{host}.memory.dimms.count", "links.gpu0-numa0.gb_s"} <= found
    assert len(found) == 14
    found = set(numbers(plain_machine(get_machine("ktransformers-a100"))))
    assert {"devices.numa1.cpu.kernels", "links.numa0-numa1.gb_s", "sync_us"} <= found


def test_the_trimoe_machine_is_that_of_table_1() -> None:
    """The numbers as TriMoE's Table 1 prints them."""
    machine = get_machine("trimoe")
    gpu, host = machine.devices
    memory, dimms, ndp = host.memory, host.memory.dimms, host.only("ndp")
    assert dimms is not None
    peak = gpu.only("gpu").peak_tflops
    assert (peak, gpu.memory.gb_s, gpu.memory.capacity_gib) == (819.6, 2040, 80)
    assert (machine.pcie.gb_s, memory.gb_s, machine.dimm_count) == (64, 307.2, 16)
    assert (float(ndp.rate_tflops(1)), ndp.internal_gb_s) == (0.256, 153.6)
    # 8 channels of DDR5-4800 at 8 bytes make the 307.2 GB/s
    assert dimms.one_gb_s == pytest.approx(4.8 * 8)
    assert dimms.one_gb_s * 8 == pytest.approx(memory.gb_s)


@pytest.mark.parametrize(("kind", "name"), PRESETS)
def test_a_preset_comes_back_the_same_from_a_file_of_its_own(
    kind: str, name: str, tmp_path: Path
) -> None:
    """Written out as JSON and read by path, a preset equals itself, and is called as its file."""
    preset = find(kind, KINDS[kind], name)
    assert preset.name == name
    path = tmp_path / "copy.json"
    path.write_text(json.dumps(preset.model_dump(mode="json")))
    assert find(kind, KINDS[kind], path) == preset
    assert find(kind, KINDS[kind], str(path)) == preset


PARAMETERS = {
    # model cards and papers; sebastianraschka.com, LLM architecture gallery, lists most of them
    "deepseek-moe-16b": (16.4, 2.8, ()),
    "deepseek-v2": (236, 21, ()),
    "deepseek-v2.5": (236, 21, ()),
    "deepseek-v2-lite": (15.7, 2.4, ("embedding",)),
    "deepseek-v3": (671, 37, ("embedding",)),
    "deepseek-r1": (671, 37, ("embedding",)),
    "kimi-k2": (1040, 32, ("embedding",)),
    "glm-4.5-air": (106, 12, ("embedding", "head")),
    "gpt-oss-20b": (20.91, 3.61, ("embedding",)),
    "gpt-oss-120b": (116.83, 5.13, ("embedding",)),
    "minimax-m2": (230, 10, ("embedding", "head")),
    "mixtral-8x7b": (46.7, 12.9, ()),
    "mixtral-8x22b": (141, 39, ()),
    "phi-3.5-moe": (41.9, 6.6, ()),
    "qwen2-57b-a14b": (57.4, 14, ()),
    "qwen3-30b-a3b": (30.5, 3.3, ()),
    "qwen3-235b-a22b": (235, 22, ()),
    "qwen3-coder-30b-a3b": (30.5, 3.3, ()),
    "qwen3-next-80b-a3b": (80, 3, ("embedding", "head")),
    "qwen3.5-35b-a3b": (35, 3, ("embedding",)),
    "glm-4.7-flash": (30, 3, ("embedding", "head")),
}
"""Model -> billions of parameters in all and per token as published, and which matrices the latter
leaves out."""


@pytest.mark.parametrize("name", names("models"))
def test_a_model_has_as_many_parameters_as_published(name: str) -> None:
    """In all to 1.5 % (most to 0.5 %), per token to 2.2 % or half of the last digit."""
    model = get_model(name)
    total, active, left_out = PARAMETERS[name]
    weights = {kind: model.weights_of(kind) / 1e9 for kind in TENSORS}
    assert sum(weights.values()) == pytest.approx(total, rel=0.015)
    weights["experts"] *= model.top_k / model.routed_experts
    per_token = sum(count for kind, count in weights.items() if kind not in left_out)
    digits = len(str(active).partition(".")[2])
    assert abs(per_token - active) <= max(0.022 * active, 0.5 * 10**-digits)


@pytest.mark.parametrize("name", names("models"))
def test_a_model_says_what_its_sizes_were_checked_on(name: str) -> None:
    """Every preset; nothing stands there from memory alone."""
    assert "; sizes checked: " in get_model(name).source


@pytest.mark.parametrize(
    ("name", "total", "routed", "rest"),
    [
        ("deepseek-v3", 671, 654, 17),  # KTransformers Table 1: total, CPU and GPU parameters
        ("deepseek-v2.5", 236, 223, 13),
        ("qwen2-57b-a14b", 57, 49, 8),
        ("mixtral-8x7b", 46.7, 45.1, 1.6),  # context-aware CXL-NDP Table 1
        ("mixtral-8x22b", 140.6, 135.5, 5.1),
        ("phi-3.5-moe", 41.9, 40.3, 1.6),  # collaborative Table II; edge Table II
        ("qwen3-30b-a3b", 30.5, 29.0, 1.5),  # edge Table II; the total is the vendor's
        ("deepseek-v2", 236, 223, 13),  # TriMoE Table 2
        ("qwen3-235b-a22b", 235, 227, 8),
        ("glm-4.5-air", 106, 99.7, 7.2),
        ("deepseek-moe-16b", 16.4, 14.95, 1.43),
    ],
)
def test_parameters_add_up_to_the_published(
    name: str, total: float, routed: float, rest: float
) -> None:
    """In 1e9: all within 1 %, the rest within 5 % (norms are left out, figures are rounded)."""
    model = get_model(name)
    assert (model.weights_of("experts") + model.resident_weights) / 1e9 == pytest.approx(
        total, rel=0.01
    )
    assert model.weights_of("experts") / 1e9 == pytest.approx(routed, rel=0.01)
    assert model.resident_weights / 1e9 == pytest.approx(rest, rel=0.05)


@pytest.mark.parametrize(
    ("name", "gb"),
    # total_size in model.safetensors.index.json of each repository
    [("gpt-oss-20b", 13.76), ("gpt-oss-120b", 65.25)],
)
def test_the_bytes_are_those_of_the_published_files(name: str, gb: float) -> None:
    """Each kind of tensor at its own width, within 0.5 %."""
    model = get_model(name)
    total = model.bytes_of("experts") + model.resident_bytes
    assert total / 1e9 == pytest.approx(gb, rel=0.005)


def test_the_edge_papers_expert_parameters() -> None:
    """Edge Table II counts the two shared experts in DeepSeek-MoE's 15.4e9."""
    model = get_model("deepseek-moe-16b")
    moe_layers = model.layers - model.dense_layers
    assert moe_layers == 27
    together = model.weights_of("experts") + moe_layers * model.shared_weights
    assert together / 1e9 == pytest.approx(15.4, rel=0.005)


def test_latent_attention_has_the_weights_of_its_five_matrices() -> None:
    """DeepSeek-V3 by hand: 187,105,280, 374 MB in BF16; DeepSeek-V2-Lite without query rank."""
    # 7168 x 1536 + 1536 x 128 x 192 + 7168 x 576 + 512 x 128 x 256 + 128 x 128 x 7168
    parts = (11_010_048, 37_748_736, 4_128_768, 16_777_216, 117_440_512)
    assert get_model("deepseek-v3").attention_weights == sum(parts)
    # 2048 x 16 x 192 + 2048 x 576 + 512 x 16 x 256 + 16 x 128 x 2048
    lite = (6_291_456, 1_179_648, 2_097_152, 4_194_304)
    assert get_model("deepseek-v2-lite").attention_weights == sum(lite)
    assert get_model("deepseek-v3").kv_bytes(1) == (512 + 64) * 2


def test_grouped_query_attention_has_four_matrices() -> None:
    """Mixtral by hand: 2 x 4096 x 4096 + 2 x 4096 x 1024; 2 x 8 x 128 numbers of KV cache."""
    assert get_model("mixtral-8x7b").attention_weights == 2 * 4096 * 4096 + 2 * 4096 * 1024
    assert get_model("mixtral-8x7b").kv_bytes(1) == 2 * 8 * 128 * 2


def test_layers_with_experts_follow_the_dense_ones() -> None:
    """The first dense ones, or those that are named."""
    model = get_model("deepseek-v3")
    assert model.moe_layers == tuple(range(3, 61))
    named = ModelShape.model_validate(
        model.model_dump() | {"layers": 6, "dense_layer_ids": [0, 2, 4]}
    )
    assert named.moe_layers == (1, 3, 5)


def test_quantizing_changes_the_bytes_and_nothing_else() -> None:
    """Bits per weight, rounded up to bytes; the rest of the weights only if told."""
    model = get_model("deepseek-v3")
    four = model.quantized(4)
    assert four.expert_bytes * 4 == model.expert_bytes
    assert four.flops_per_token == model.flops_per_token
    assert (four.bits_of("attention"), model.quantized(4, 4).bits_of("attention")) == (16, 4)
    assert four.quantized(16).expert_bytes == model.expert_bytes
    assert model.quantized(3.25).expert_bytes == 44_040_192 * 13 // 32
    with pytest.raises(InputError, match=r"expert_bits: must be from 0\.5 to 64, not 0\.25"):
        model.quantized(0.25)


@pytest.mark.parametrize(
    ("name", "gib"), [("deepseek-v2", 422), ("qwen3-235b-a22b", 423), ("glm-4.5-air", 190)]
)
def test_all_experts_together_have_the_size_of_trimoe_table_2(name: str, gib: int) -> None:
    """Routed and shared experts of all layers, in GiB, within 2 % of the printed size."""
    model = get_model(name)
    experts = model.routed_experts + model.shared_experts
    total = (model.layers - model.dense_layers) * experts * model.expert_bytes
    assert total / 2**30 == pytest.approx(gib, rel=0.02)


def message_of(kind: str, name_or_file: str | Path) -> str:
    with pytest.raises(InputError) as caught:
        find(kind, KINDS[kind], name_or_file)
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["TRIMOE", "", "../machines/trimoe", "a\nb", "a\0b", "x" * 5000])
def test_an_unknown_name_is_told_what_is_known(kind: str, name: str) -> None:
    """One line: names like it and the command that lists all, or every preset of the kind."""
    message = message_of(kind, name)
    assert message.startswith(f"{kind[:-1]}: ")
    listed = f"is neither a file nor one of {', '.join(names(kind))}"
    like_it = f"(moeopt list {kind})"
    assert message.endswith((listed, like_it))
    assert message.endswith(listed) or any(known in message for known in names(kind))


def test_a_folder_is_not_a_machine(tmp_path: Path) -> None:
    """A folder's path is answered like any other wrong name."""
    assert "is neither a file nor one of " in message_of("machines", tmp_path)


@pytest.mark.parametrize(
    ("path", "raw", "says"),
    [
        ("links.gpu0-numa0.gb_s", "-64", "links[0].gb_s: must be more than 0.0, not -64"),
        ("links.gpu0-numa0.gb_s", '"64"', "links[0].gb_s: "),
        (
            "devices.numa0.computes",
            '[{"kind": "cpu"}]',
            "devices[1].computes[0].name: is missing (text: its name; `nvidia-smi -L`,",
        ),
        ("devices.numa0.computes", '[{"kind": "cpu"}]', "devices[1].computes[0].kernels: is miss"),
        (
            "devices.numa0.cpu.kernels",
            '[{"name": "x", "tflops": {"scale": "linear", "points": [[2, 1], [1, 2]]}}]',
            "devices[1].computes[0].kernels[0].tflops.points[1][0]: must be above the tokens of",
        ),
        ("pcie", "64", "pcie: is not a known key"),
        ("schema_version", "3", "schema_version: must be 2, not 3"),
    ],
)
def test_an_invalid_machine_file_is_named_with_field_and_reason(
    path: str, raw: str, says: str, tmp_path: Path
) -> None:
    """Negative and infinite bandwidths, falling curves, strangers among the keys."""
    data = plain_machine(get_machine("trimoe"))
    put(data, path, "@here@")
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(data).replace('"@here@"', raw))
    message = message_of("machines", file)
    assert message.startswith(f"{file}: ")
    assert says in message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"top_k": 161}, "top_k: must be at most routed_experts = 160, not 161"),
        ({"hidden_size": 5120.0}, "hidden_size: must be an integer, not 5120.0"),
        ({"bytes_per_weight": True}, "bytes_per_weight: input should be a valid number, not true"),
        ({"dense_layers": 60}, "dense_layers: must be below layers = 60, not 60"),
        ({"dense_layer_ids": [60]}, "dense_layer_ids: must rise and be below layers = 60"),
        ({"dense_layer_ids": [2, 1]}, "dense_layer_ids: must rise and be below layers = 60"),
        (
            {"dense_layer_ids": [0, 1]},
            "dense_layer_ids: must be as many as dense_layers = 1, not 2",
        ),
        (
            {"attention": {"kind": "grouped_query", "heads": 6, "kv_heads": 4, "head_dim": 1}},
            "attention.grouped_query.kv_heads: must divide heads = 6, not 4",
        ),
    ],
)
def test_an_impossible_model_file_is_named_with_field_and_reason(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """More experts per token than experts, and sizes that are none."""
    path = tmp_path / "model.json"
    path.write_text(json.dumps(get_model("deepseek-v2").model_dump() | changes))
    assert message_of("models", path) == f"{path}: {says}"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ('{"skew": -1, "drift": 0}', "skew: must be at least 0.0, not -1"),
        ('{"skew": "8", "drift": 0}', "skew: "),
    ],
)
def test_an_impossible_workload_file_is_named_with_field_and_reason(
    raw: str, says: str, tmp_path: Path
) -> None:
    """Skew and drift are bounded numbers."""
    path = tmp_path / "workload.json"
    path.write_text(json.dumps(json.loads(raw) | {"name": "x", "source": "y"}))
    assert message_of("workloads", path).startswith(f"{path}: {says}")


def test_many_unknown_keys_are_one_short_line(tmp_path: Path) -> None:
    """The known keys stand in it once, the first unknown ones by name, the rest by number."""
    data = json.loads((FOLDER / "machines" / "trimoe.json").read_text())
    data["devices"][0]["memory"] |= {f"{'wrong' * 8}{number}": 1 for number in range(30)}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        get_machine(path)
    said = str(caught.value).removeprefix(str(path))
    assert len(said) < 900
    assert said.count("there are capacity_gib, gb_s, ") == 1
    assert "; likewise devices[0].memory.wrong" in said
    assert said.endswith(" more")


@pytest.mark.parametrize(
    ("called", "name", "told"),
    [
        ("zai-org/GLM-4.5-Air", "glm-4.5-air", False),
        ("GLM-4.5-Air", "glm-4.5-air", False),
        ("openai/gpt-oss-120b", "gpt-oss-120b", False),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b", True),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b", True),
        ("unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF", "qwen3-30b-a3b", True),
        ("bartowski/zai-org_GLM-4.5-Air-GGUF", "glm-4.5-air", True),
        ("gpt-oss:120b", "gpt-oss-120b", False),
    ],
)
def test_models_are_named_as_on_hugging_face(
    called: str, name: str, told: bool, recwarn: pytest.WarningsRecorder
) -> None:
    """A tuned one has the sizes of its base, which is told; other widths are another model."""
    assert get_model(called).name == name
    assert ["is taken for model" in str(one.message) for one in recwarn] == [True] * told
    with pytest.raises(InputError, match="did you mean glm"):
        get_model("zai-org/GLM-4.5-Air-FP8")
    with pytest.raises(InputError, match=r"as in --model deepseek-v3 --bits Q4_K_M"):
        get_model("unsloth/DeepSeek-V3-0324-GGUF:Q4_K_M")
    with pytest.raises(InputError, match=r"it is deepseek-v3, whose types by tensor the GGUF"):
        get_model("unsloth/DeepSeek-V3-0324-GGUF:UD-Q2_K_XL")


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("4090+9800x3d", "rtx4090+ryzen-am5"),
        ("2x4090+2xEPYC 9654", "2xrtx4090+2xepyc-9004"),
        ("5090+285k", "rtx5090+intel-desktop"),
        ("Strix Halo", "ryzen-ai-max-395"),
    ],
)
def test_a_count_is_no_part_of_a_name(
    called: str, name: str, recwarn: pytest.WarningsRecorder
) -> None:
    """9800X3D is one CPU, not 9,800 of them."""
    assert get_machine(called).name == name
    assert "is taken for" in str(recwarn[0].message)
