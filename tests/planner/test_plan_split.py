"""Plans for several GPUs: command lines that say what was planned, speeds, what each brings."""

import json
import random
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from tests.exporters.llama_cpp_arguments import parsed
from tests.exporters.llama_cpp_rules import split_of
from tests.rooms.cli import run
from tests.rooms.exporters import read_split_flags, shared_by_ik, split_flags
from tests.rooms.planner import SeveralOptions, Wish, plan_devices
from tests.rooms.sim import (
    Context,
    Counts,
    NumaMode,
    Setting,
    at_bits,
    get_model,
    patterns,
    plain_machine,
)
from tests.rooms.solvers import Limits
from tests.rooms.split import Instance, Solution
from tests.shares import shares
from tests.sim.hardware.machine_data import put


def random_split(seed: int) -> tuple[Instance, Solution]:
    """Return a split in the order that the runtimes can do, over 1 to 4 GPUs; never all off."""
    rng = random.Random(seed)
    gpus, layers = rng.randint(1, 4), rng.randint(1, 12)
    ends = [*rng.choices(range(gpus + 1), k=layers - 1), rng.randint(1, gpus)]
    attention = [gpus if end == 0 else end - 1 for end in sorted(ends)]  # 0: the host
    experts = [rng.choice([at, gpus, rng.randrange(gpus)]) for at in attention]
    instance = _instance(gpus, layers)
    return instance, Solution(
        instance=instance.name, attention=tuple(attention), experts=tuple(experts)
    )


def by_tensor(seed: int) -> tuple[Instance, Solution]:
    """Return such a split of gate, up and down, each anywhere."""
    rng = random.Random(seed)
    instance, solution = random_split(seed)
    more = {"attention_ns": None, "attention_bytes": 0}
    rows, attention = list[object](), list[int]()
    for row, at in zip(instance.layers, solution.attention, strict=True):
        rows += [row, *[row.model_copy(update=more)] * 2]
        attention += [at, -1, -1]
    experts = tuple(rng.randrange(len(instance.devices)) for _ in rows)
    apart = Solution(instance=instance.name, attention=tuple(attention), experts=experts)
    return instance.model_copy(update={"layers": tuple(rows)}), apart


def whole(found: tuple[list[str], list[tuple[str, ...]]]) -> tuple[list[str], list[str]]:
    """Return the one device of each layer's tensors of experts."""
    assert all(len(set(own)) == 1 for own in found[1])
    return found[0], [own[0] for own in found[1]]


@pytest.mark.parametrize("seeds", shares(40, 200))
def test_the_flags_say_what_was_planned(seeds: range) -> None:
    """Read back as llama.cpp reads them: every layer of random splits on its device.

    A file may count a block that predicts further tokens as a layer, known or not; or three.
    """
    for seed in seeds:
        instance, solution = random_split(seed)
        gpus, layers = len(instance.devices) - 1, len(instance.layers)
        names = [*(f"CUDA{n}" for n in range(gpus)), "CPU"]
        wanted = [names[n] for n in solution.attention], [names[n] for n in solution.experts]
        for known, more in ((None, 0), (0, 0), (1, 1), (3, 3), (None, 1)):
            if more and known is None and gpus in solution.attention:
                continue  # -ngl counts from the end
            for quoted in (False, True):
                flags = split_flags(instance, solution, known, quoted=quoted)
                attention, experts = split_of(flags, layers + more, gpus)
                assert (attention[:layers], experts[:layers]) == wanted, flags
                memory = [1.0] * gpus
                assert whole(read_split_flags(flags, layers, memory, more)) == wanted, flags


def test_one_pattern_finds_its_blocks_and_no_other() -> None:
    """Sets of up to 130 blocks, by the regular expressions that the runtimes use."""
    rng = random.Random(2)
    for most in (9, 31, 61, 130):
        for _ in range(40):
            kept = sorted(rng.sample(range(most), rng.randint(1, most)))
            [pattern] = patterns(kept, "ffn_.+exps", quoted=True)
            found = [n for n in range(most) if re.search(pattern, f"blk.{n}.ffn_up_exps.weight")]
            assert found == kept, pattern


def test_ik_llama_cpp_shares_out_bytes() -> None:
    """Layers of any sizes are where they were planned; it does not count the output layer."""
    rng = random.Random(1)
    for seed in range(200):
        instance, solution = random_split(seed)
        rows = (
            row.model_copy(update={"experts_bytes": rng.randint(1, 99)}) for row in instance.layers
        )
        instance = instance.model_copy(update={"layers": tuple(rows)})
        gpus, shared = len(instance.devices) - 1, shared_by_ik(instance, rng.choice([0, 30, 300]))
        names = [*(f"CUDA{n}" for n in range(gpus)), "CPU"]
        wanted = [names[n] for n in solution.attention], [names[n] for n in solution.experts]
        flags = split_flags(instance, solution, 0, shared)
        found = read_split_flags(flags, len(instance.layers), [1.0] * gpus, 0, shared)
        assert whole(found) == wanted, flags


def test_tensors_lie_apart_and_gpus_have_the_names_of_their_backend() -> None:
    """Gate, up and down of random splits, read back; `predict` prices them as `plan` does."""
    for seed in range(60):
        instance, solution = by_tensor(seed)
        gpus = len(instance.devices) - 1
        flags = split_flags(instance, solution, backend="Vulkan")
        assert not any("CUDA" in word for word in flags)
        names = [*(f"CUDA{n}" for n in range(gpus)), "CPU"]
        found = read_split_flags(flags, len(instance.layers) // 3, [1.0] * gpus)
        assert found[0] == [names[at] for at in solution.attention[::3]]
        assert [name for own in found[1] for name in own] == [names[h] for h in solution.experts]


def test_ik_counts_from_the_last_layer_with_experts() -> None:
    """The first of four layers has none."""
    row = _instance(2, 1).layers[0]
    dense = row.model_copy(update={"experts_ns": None, "experts_bytes": 0})
    instance = _instance(2, 1).model_copy(update={"layers": (dense, row, row, row)})
    words = ["--n-cpu-moe", "2"]
    shared = shared_by_ik(instance)
    assert shared.moe == [1, 2, 3]
    for of, off in ((None, [0, 1]), (shared, [2, 3])):
        experts = whole(read_split_flags(words, 4, [1.0, 1.0], 0, of))[1]
        assert [layer for layer, home in enumerate(experts) if home == "CPU"] == off


def _instance(gpus: int, layers: int) -> Instance:
    count = gpus + 1
    return Instance.from_arrays(
        attention_ns=[[1] * count] * layers,
        attention_bytes=[1] * layers,
        experts_ns=[[1] * count] * layers,
        experts_bytes=[1] * layers,
        hop_ns=[[0] * count] * count,
        capacity=[100] * count,
        source=gpus,
    ).model_copy(
        update={
            "devices": tuple(
                moeopt.split.Device(name=name, capacity=100)
                for name in [*(f"gpu{n}" for n in range(gpus)), "host"]
            )
        }
    )


def test_the_model_says_how_many_layers_its_file_counts() -> None:
    """Attention of one layer on the host, of two on GPUs: 3 of 4, or 4 of 5 with a block."""
    made = _instance(2, 3)
    solution = Solution(instance=made.name, attention=(2, 0, 1), experts=(2, 2, 1))
    for nextn, offloaded in ((None, "3"), (1, "4")):
        model = get_model("mixtral-8x7b").model_copy(update={"nextn": nextn})
        words = moeopt.export(solution, made, to="llama.cpp", model=model).text.split()
        assert words[:2] == ["-ngl", offloaded]


def test_blocks_that_only_the_file_tells_of_are_named() -> None:
    """-ngl is a number of a file without them: said, unless the file was read."""
    machine, model = moeopt.get_machine("2xp100+2xxeon-e5-v4"), get_model("glm-4.5-air")
    for nextn, said, offloaded in ((None, True, 44), (0, False, 44), (1, False, 45)):
        shape = model.model_copy(update={"nextn": nextn})
        setting = Setting(machine, at_bits(shape, "Q8_0"), context=Context(0, 131072))
        plan = plan_devices(setting, Wish(shape, "Q8_0"))
        assert f"-ngl {offloaded} " in plan.command
        assert any(note.startswith("-ngl 44: of a file with 46 bl") for note in plan.notes) == said
        words = shlex.split(plan.command)
        placed = words[words.index("-ngl") : words.index("-fa")]
        attention, _ = split_of(placed, 46 + (nextn or 0), 2)
        names = ["CUDA0", "CUDA1", "CPU"]
        assert attention[:46] == [names[at] for at in plan.best.decision.attention]


def test_two_cards_and_a_server_from_nothing_to_a_command(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The notebook's command: a complete command line that places what was planned."""
    typed = (root / "docs" / "gallery" / "plan.md").read_text()
    typed = typed.split("```sh\n")[1].split("```")[0].replace("\\\n", " ")
    assert run([*shlex.split(typed)[1:], "--json", "--time-limit", "60"]) == 0
    plan = json.loads(capsys.readouterr().out)
    words = shlex.split(plan["command"])
    for flag, value in {"-c": "32768", "-ctk": "q8_0", "-ub": "512"}.items():
        assert words[words.index(flag) + 1] == value
    assert plan["prompt_tokens_per_s"] > plan["tokens_per_s"] > 10
    assert all(row["score"] >= plan["rows"][0]["score"] for row in plan["defaults"])
    assert {"without gpu0", "without gpu1"} <= {*plan["worth"]}
    assert parsed(words[1:])["-sm"] == "layer"
    attention, experts = split_of(words[3 : words.index("-c")], 46, 2)
    names = ["CUDA0", "CUDA1", "CPU"]
    assert attention == [names[home] for home in plan["attention"]]
    for found, home in zip(experts, plan["experts"], strict=True):
        assert home < 0 or found == names[home]


@pytest.mark.parametrize(
    ("runtime", "numa", "more"),
    [
        ("llama.cpp", "interleaved", {"--numa": "distribute", "-ctk": "q4_0", "-b": "4096"}),
        ("ik_llama.cpp", "mirrored", {"-mla": "3", "-ctv": "q4_0", "-ub": "4096"}),
    ],
)
def test_every_flag_is_one_of_the_runtimes(
    runtime: str, numa: NumaMode, more: dict[str, str]
) -> None:
    """Latent attention, two nodes, narrow caches, large ubatches: the line is read as meant."""
    machine = moeopt.get_machine("2xa100+2xepyc-9004")
    model, context = get_model("deepseek-v2-lite"), Context(0, 8192)
    setting = Setting(
        machine, at_bits(model, "Q4_K_M"), runtime, context, ("q4_0", "q4_0"), 4096, numa=numa
    )
    plan = plan_devices(setting, Wish(model, "Q4_K_M"), Limits(1.0), path="a.gguf")
    found = parsed(shlex.split(plan.command)[1:], ik=runtime == "ik_llama.cpp")
    assert 1 <= int(found["-t"]) <= 64
    assert found.items() >= ({"-m": "a.gguf", "-c": "8192"} | more).items()
    told = {
        "to": runtime,
        "model": "deepseek-v2-lite",
        "options": {"context": 8192, "ubatch": 4096},
    }
    target = moeopt.export(plan.best.decision, plan.instance, **told)
    flags = parsed(shlex.split(target.text), ik=runtime == "ik_llama.cpp")
    for name in {"-ngl", "-ts", "-sm", "--device"} & set(found):
        assert flags[name] == found[name]
    placed = (shlex.split(text) for text in (plan.command, target.text))
    first, second = (
        split_of(words[words.index("-ngl") : words.index("-fa")], 27, 2) for words in placed
    )
    assert first == second


def test_shared_experts_are_attentions_whether_their_width_is_stated_or_not() -> None:
    """On unlike GPUs, with experts elsewhere than attention: one speed, 3 % apart otherwise."""
    machine, model = moeopt.get_machine("rtx5090+t4+epyc-9005"), get_model("deepseek-v2-lite")
    stated = model.model_copy(update={"shared_intermediate_size": 2 * 1408})
    flags = "-ngl 99 -sm none -ot exps=CUDA1"
    found = [
        moeopt.predict(machine, one, flags=flags, bits="Q3_K", context=4096).tokens_per_s
        for one in (model, stated)
    ]
    assert found[0] == found[1]


def test_a_gpu_that_costs_is_left_out() -> None:
    """Its memory hardly holds its buffers, and each layer there costs: the page says so."""
    machine = moeopt.get_machine("rtx5090+t4+epyc-9005")
    model = get_model("qwen3-30b-a3b")
    setting = Setting(machine, at_bits(model, "Q4_K_M"), context=Context(0, 8192))
    plan = plan_devices(setting, Wish(model, "Q4_K_M"))
    assert 1 not in (*plan.best.decision.attention, *plan.best.decision.experts)
    assert plan.worth["without gpu1"] == 0
    assert "without gpu1: +0.0%, leave it out" in str(plan)
    assert "--device CUDA0" in plan.command


def test_counts_say_which_experts_a_prompt_activates() -> None:
    """Last layers with few popular experts cost prompts less, and theirs alone; decoding does not.

    64 tokens on 128 experts of which 8 are chosen always activate 8, on even ones all but 2.
    """
    model = get_model("qwen3-30b-a3b")
    counts = np.full((1, 48, 128), 100)
    counts[0, 40:] = 0
    counts[0, 40:, :8] = 1600
    options = {"ubatch": 64, "prompt_tokens": 64, "bits": "Q4_K_M"}
    even, focused = (
        moeopt.generate(
            "split",
            machine="2xrtx3090+epyc-7002",
            model=model,
            counts=Counts("own", one),
            **options,
        )
        for one in (np.full((1, 48, 128), 7), counts)
    )
    plain = moeopt.generate("split", machine="2xrtx3090+epyc-7002", model=model, **options)
    assert even.layers == plain.layers
    assert focused.provenance["counts"] == {"name": "own"}
    for row, (one, other) in enumerate(zip(plain.layers, focused.layers, strict=True)):
        assert (one.attention_ns, one.experts_ns) == (other.attention_ns, other.experts_ns)
        # A host's experts are copied to the first GPU and computed there.
        copied = [each.prompt_experts_ns[2] - each.prompt_experts_ns[0] for each in (other, one)]
        assert copied[0] / copied[1] == (1 if row < 40 else pytest.approx(8 / 126, rel=0.01))


def test_a_plan_of_prompts_keeps_layers_that_activate_most_on_gpus() -> None:
    """With counts it is other layers' experts that lie on the host, and prompts are faster."""
    counts = np.full((1, 48, 128), 100)
    counts[0, 24:] = 0
    counts[0, 24:, :8] = 1600
    given = {"bits": "Q8_0", "several": SeveralOptions(prompt_tokens=4096, ubatch=64)}
    machine = moeopt.set_machine(
        moeopt.get_machine("2xrtx3090+epyc-7002"), {"gpu.capacity_gib": 12.0}
    )
    plain = moeopt.plan(machine, "qwen3-30b-a3b", **given)
    known = moeopt.plan(machine, "qwen3-30b-a3b", counts=Counts("own", counts), **given)

    def on_host(plan: Any) -> list[bool]:
        return [home == 2 for home in plan.best.decision.experts]

    focused = sum(on_host(known)[24:])
    assert focused > sum(on_host(plain)[24:])
    assert focused > sum(on_host(known)[:24])
    assert known.best.speeds[0].prompt > plain.best.speeds[0].prompt


def test_what_cannot_fit_names_every_device() -> None:
    """Exit code 3, one line with MiB."""
    machine = moeopt.set_machine(
        moeopt.get_machine("2xrtx3090+epyc-7002"), {"dram.capacity_gib": 64}
    )
    model = get_model("deepseek-v3")
    with pytest.raises(
        moeopt.InfeasibleError, match=r"gpu0 [\d,]+, gpu1 [\d,]+, host 65,536 MiB"
    ) as caught:
        plan_devices(Setting(machine, at_bits(model, "Q2_K")), Wish(model, "Q2_K"))
    assert caught.value.exit_code == 3


LINK = {"ends": ["gpu0", "gpu1"], "kind": "pcie", "gb_s": 25.0}


@pytest.mark.parametrize("command", ["predict", "plan"])
@pytest.mark.parametrize(
    ("field", "value", "words", "code"),
    [
        ("links", [LINK | {"ends": ["gpu0", "gpu7"]}], "there is no device 'gpu7'", 2),
        ("links", [LINK, LINK | {"ends": ["gpu1", "gpu0"]}], "links[3]: is a second one", 2),
        ("links", [LINK | {"latency_us": -1.0}], "latency_us: must be at least 0.0, not -1.0", 2),
        ("memory", 0.0, "devices[2].memory.capacity_gib: must be more than 0.0", 2),
        ("sources", {"devices": {"numa0": "dmidecode"}}, "sources.devices: must be a string", 2),
        ("memory", 16.0, "there are gpu0 22,789, gpu1 22,789, host 16,384 MiB", 3),
    ],
)
def test_a_machine_that_cannot_be_is_one_line(
    command: str,
    field: str,
    value: object,
    words: str,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From a file: links to nowhere, negative times, no memory (2); too little memory (3)."""
    data = plain_machine(moeopt.get_machine("2xrtx3090+epyc-7002"))
    if field == "memory":
        put(data, "devices.numa0.memory.capacity_gib", value)
    else:
        data[field] = [*data["links"], *value] if field == "links" else value  # type: ignore[misc]
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(data))
    asked = [command, "--machine", str(path), "--model", "glm-4.5-air", "--bits", "Q4_K_M"]
    assert run(asked) == code
    said = capsys.readouterr()
    assert words in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


PREDICT = "predict --machine 2xrtx3090+epyc-7002 --model glm-4.5-air --bits Q4_K_M"


def test_a_command_line_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    """As `plan` does its own; worse places are slower; by itself the runtime fits it."""
    planned = _planned(capsys)
    words = shlex.quote(planned["command"])
    options = "--context 32k --depth 4250 --kv-bits q8_0 --prompt 4000 --json"
    same = json.loads(_printed(capsys, f"{PREDICT} {options} --flags {words}"))
    for what in ("attention", "experts", "tokens_per_s", "low", "high", "command"):
        assert same[what] == planned[what]
    own = json.loads(_printed(capsys, f"{PREDICT} {options}"))
    poor = json.loads(_printed(capsys, f"{PREDICT} {options} --flags '-ngl 99 --cpu-moe'"))
    assert poor["tokens_per_s"] < own["tokens_per_s"]
    assert set(poor["experts"]) == {-1, 2}
    assert own["low"] < own["tokens_per_s"] < own["high"]


PLANNED = PREDICT.replace("predict", "plan", 1) + (
    " --context 32k --kv-bits q8_0 --prompt-tokens 4000 --work-limit 0.5 --json"
)


_made: dict[str, str] = {}
"""What `PLANNED` printed, for several tests."""


def _planned(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    if PLANNED not in _made:
        _made[PLANNED] = _printed(capsys, PLANNED)
    found: dict[str, Any] = json.loads(_made[PLANNED])
    return found


def _printed(capsys: pytest.CaptureFixture[str], command: str) -> str:
    assert run(shlex.split(command)) == 0, command
    return capsys.readouterr().out


def test_a_plan_by_tensor_is_priced_as_its_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is no slower than one by layer, and names what differs alone."""
    by_layer = _planned(capsys)
    plan = json.loads(_printed(capsys, f"{PLANNED} --granularity tensor --backend ROCm"))
    assert plan["tokens_per_s"] > by_layer["tokens_per_s"]
    assert "ffn_down_exps=CPU" in plan["command"]
    words = plan["command"].split("-ngl")[1].split(" -fa")[0]
    again = f"{PREDICT} --context 32k --kv-bits q8_0 --json --flags '-ngl{words}'"
    read = json.loads(_printed(capsys, again))
    for what in ("attention", "experts"):
        assert read[what] == plan[what]
    assert "ffn_down_exps=ROCm1" in read["command"]


def test_overrides_are_read_as_the_runtime_reads_them() -> None:
    """The first pattern that is found holds; without -ts layers follow the memory."""
    words = shlex.split(
        r"llama-server -ngl 99 -ot blk\.[01]\..*_exps=CUDA1 -ncmoe 2 -ot exps=CPU -fa on -c 4096"
    )
    attention, experts = whole(read_split_flags(words, 4, [48.0, 24.0]))
    assert attention == ["CUDA0", "CUDA0", "CUDA0", "CUDA0"] or attention[-1] == "CUDA1"
    assert experts == ["CUDA1", "CUDA1", "CPU", "CPU"]
    assert read_split_flags(["--split-mode", "none"], 2, [8.0, 8.0])[0] == ["CUDA0", "CUDA0"]
    assert read_split_flags(["-ngl", "0"], 2, [8.0])[0] == ["CPU", "CPU"]
    assert read_split_flags(["-ts", "0,1"], 2, [8.0, 8.0])[0] == ["CUDA1", "CUDA1"]


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ("-ngl 99", 3, "gpu0 lacks "),
        ("-ngl 99 --n-cpu-moe x", 2, "--n-cpu-moe: must be a whole number from 0 on"),
        ("-ot exps=CUDA7", 2, "-ot: must be PATTERN=DEVICE of CPU, CUDA0, CUDA1"),
        ("-ot (=CPU", 2, "-ot: '(': "),
        ("-ts 1,2,3", 2, "-ts: must be at most 2 shares"),
        ("-sm row", 2, "-sm: must be layer or none"),
        ("--device CUDA3", 2, "--device: must be of CUDA0, CUDA1"),
        ("-c x", 2, "-c: must be a whole number from 0 on, not 'x'"),
        ("-ctk q9", 2, "-ctk: must be one of f32, f16, q8_0"),
    ],
)
def test_flags_that_cannot_be(
    flags: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line; what does not fit names devices and the widest quantisation that does."""
    assert run([*shlex.split(PREDICT), "--flags", flags]) == code
    [line] = capsys.readouterr().err.strip().splitlines()
    assert said in line
    assert code == 2 or "it fits with --bits " in line


def test_several_machines_and_widths_make_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """One GPU and several in the same table."""
    more = "--machine rtx4090+ryzen-am5 --machine rtx4090+2xepyc-9004 --bits Q2_K"
    lines = _printed(capsys, f"{PREDICT} {more}").splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        [machine, bits]
        for machine in ("2xrtx3090+epyc-7002", "rtx4090+ryzen-am5", "rtx4090+2xepyc-9004")
        for bits in ("Q4_K_M", "Q2_K")
    ]


def test_kinds_of_layers_that_take_turns_are_planned_to_a_proof() -> None:
    """Sliding-window and full attention, one after the other; also with twice the channels."""
    found = moeopt.plan("2xrtx4090+epyc-9004", "gpt-oss-120b", bits="MXFP4", context=49152)
    assert isinstance(found.instance, Instance)
    assert len({layer.attention_bytes for layer in found.instance.layers[:2]}) == 2
    assert found.proof is not None
    assert found.proof.gap == 0
    assert found.proof.proof == "confirmed"
    assert all(row.score >= found.best.score for row in found.defaults)
    faster = found.worth["the host with twice the channels"]
    assert faster is not None
    assert faster < 0
