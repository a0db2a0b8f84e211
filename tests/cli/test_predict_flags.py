"""`moeopt predict --flags` means what llama.cpp means, and no flag passes in silence."""

import json
import random
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

import moeopt
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.sim import (
    FLAGS,
    VALUES,
    AttentionByLayer,
    LayerGroup,
    Projection,
    get_model,
    read_line,
    tensor_names,
)

TWO = "2xrtx3090+ryzen-am4"
AIR = "--model glm-4.5-air --bits Q4_K_M"
OFF = "-ngl 99 --cpu-moe -c 4096"


@dataclass(frozen=True)
class Found:
    """What `predict` answers: its JSON object, the command's words, the warnings."""

    data: dict[str, object]
    words: list[str]
    notes: str

    def value(self, flag: str) -> str | None:
        """Return a flag's value in the command; None where it is not there."""
        return self.words[self.words.index(flag) + 1] if flag in self.words else None


def predicted(
    capsys: pytest.CaptureFixture[str], line: str, asked: str = AIR, machine: str = TWO
) -> Found:
    """Return the prediction of a command line."""
    words = ["predict", "--machine", machine, *shlex.split(asked), "--json", "--flags", line]
    assert run(words) == 0, line
    said = capsys.readouterr()
    data = json.loads(said.out)
    kept = [one for one in said.err.splitlines() if "host memory: not stated" not in one]
    return Found(data, shlex.split(data["command"]), "\n".join(kept))


def mib_used(
    capsys: pytest.CaptureFixture[str], line: str, asked: str = AIR, machine: str = TWO
) -> list[int]:
    """Return the MiB of each device, as the page says them."""
    assert run(["predict", "--machine", machine, *shlex.split(asked), "--flags", line]) == 0
    rows = re.findall(
        r"^(?:gpu\d+|host) +\d+ +\d+ +([\d,]+)", capsys.readouterr().out, re.MULTILINE
    )
    return [int(row.replace(",", "")) for row in rows]


def test_no_context_is_the_models_own(capsys: pytest.CaptureFixture[str]) -> None:
    """`-c 0`; each of several slots has as much, unless they share one cache."""
    qwen = "--model qwen3-30b-a3b --bits Q4_K_M"
    for line, room in (
        ("-ngl 99 -c 0", "40960"),
        ("-ngl 99 --ctx-size 0 -np 2", "81920"),
        ("-ngl 99 -c 0 -np 2 -kvu", "40960"),
        ("-ngl 99 -c 2048", "2048"),
    ):
        assert predicted(capsys, line, qwen).value("-c") == room
    assert mib_used(capsys, "-ngl 99 -c 0", qwen) == mib_used(capsys, "-ngl 99 -c 40960", qwen)
    assert "no -c: 32,768 tokens are taken; the runtime would take the model's own 40,960" in (
        predicted(capsys, "-ngl 99", qwen).notes
    )
    assert "no -c" not in predicted(capsys, "-ngl 99", f"{qwen} --context 8192").notes


def test_a_length_that_nobody_states_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what to write."""
    asked = f"predict --machine {TWO} --model minimax-m2 --bits Q2_K --flags '-c 0'"
    assert get_model("minimax-m2").context_length is None
    assert "-c: 0 is the model's own context length, which model minimax-m2 does not state" in (
        refused_command(capsys, shlex.split(asked))
    )


def test_keys_and_values_have_types_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The first GPU's 24 of 46 layers at 131,072 tokens; only what is given is printed."""
    long = "-ngl 99 --cpu-moe -c 131072"
    full = 24 * 2 * 8 * 128 * 2 * 131072 / 2**20
    at = {
        kinds: mib_used(capsys, f"{long} {kinds}")[0]
        for kinds in ("", "-ctk q8_0", "-ctv q8_0", "-ctk q8_0 -ctv q8_0", "-ctk bf16")
    }
    saved = full / 2 * (16 - 8.5) / 16
    assert at[""] == 15_884
    assert at["-ctk q8_0"] == at["-ctv q8_0"] == pytest.approx(at[""] - saved, abs=25)
    assert at["-ctk q8_0 -ctv q8_0"] == 10_124
    assert at["-ctk bf16"] == at[""]
    for kind, other in (("-ctk", "-ctv"), ("-ctv", "-ctk")):
        found = predicted(capsys, f"{long} {kind} q5_1")
        assert (found.value(kind), found.value(other)) == ("q5_1", None)
    both = predicted(capsys, f"{long} -ctk iq4_nl -ctv q4_0")
    assert (both.value("-ctk"), both.value("-ctv")) == ("iq4_nl", "q4_0")


def test_latent_attention_has_one_cache_of_the_keys_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The type of values changes nothing; of layers that differ their values' widths count."""
    lite, line = "--model deepseek-v2-lite --bits Q4_K_M", "-ngl 99 -c 131072"
    plain = mib_used(capsys, line, lite)
    assert mib_used(capsys, f"{line} -ctv q8_0", lite) == plain
    assert mib_used(capsys, f"{line} -ctk q8_0", lite)[0] < plain[0]


def test_shapes_count_keys_and_values_apart() -> None:
    """Half the numbers each in grouped-query attention; the mean is what both have."""
    model = get_model("qwen3-30b-a3b")
    values = 2 * 4 * 128
    for keys, own in ((8.5, 16.0), (16.0, 4.5), (8.5, 8.5)):
        made = model.with_kv_bits(keys, own)
        assert made.kv_bytes(100) == 100 * values / 2 * (keys + own) / 8
        assert made.bits_of("kv") == (keys + own) / 2
        assert made.kv_widths == (keys, own)
    again = model.with_kv_bits(8.5, 16.0).with_kv_bits(8.0)
    assert again.kv_widths == (8.0, 8.0)


def test_layers_that_differ_count_their_own_keys_and_values() -> None:
    """Keys of 192 and values of 128, in one layer; a window; a latent layer without values."""
    plain = get_model("qwen3-30b-a3b")
    keys = Projection(name="attn_k", columns=64, rows=192)
    groups = (
        LayerGroup(layers=(0,), mixer="full", matrices=(keys,), cache_values=320),
        LayerGroup(layers=(1, 2), mixer="window", cache_values=100, window=10),
        LayerGroup(layers=(3,), mixer="latent", cache_values=50),
    )
    attention = AttentionByLayer(heads=4, groups=groups)
    model = plain.model_copy(update={"layers": 4, "attention": attention})
    for tokens in (4, 1000):
        seen = 2 * min(tokens, 10)
        of_keys = 192 * tokens + 50 * seen + 50 * tokens
        of_values = 128 * tokens + 50 * seen
        made = model.with_kv_bits(8.0, 16.0)
        assert made.cache_bytes(tokens) == pytest.approx(of_keys + 2 * of_values, abs=1)


def test_files_state_the_length_of_context(tmp_path: Path) -> None:
    """Under `max_position_embeddings`, in a part for text, too; none is unknown."""
    file = tmp_path / "config.json"
    config = {
        "num_hidden_layers": 4, "hidden_size": 64, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 100,
    }  # fmt: skip
    stated = {"max_position_embeddings": 12345}
    for data, length in (
        (config, None),
        (config | stated, 12345),
        ({"text_config": config | stated}, 12345),
    ):
        file.write_text(json.dumps(data))
        assert get_model(file).context_length == length


def test_threads_are_felt_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer are slower; more than the machine has are those that it has, which is said."""
    speeds = []
    for threads in (4, 8, 16):
        found = predicted(capsys, f"{OFF} -t {threads}")
        assert found.value("-t") == str(threads)
        speeds.append(found.data["tokens_per_s"])
    assert len(set(speeds)) == len(speeds)
    assert min(speeds) == speeds[0]  # type: ignore[type-var]
    many = predicted(capsys, f"{OFF} --threads 64")
    assert many.data["tokens_per_s"] == speeds[-1]
    assert "-t 64: predicted as 16" in many.notes
    assert predicted(capsys, f"{OFF} -t -1").value("-t") == "16"


def test_one_gpu_is_the_one_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """`-sm none -mg 1`: all on gpu1, which is slower; without `-sm none` it says nothing."""
    pair = "rtx5070ti+rtx5060ti-16gb+ryzen-am5"
    asked, line = "--model qwen3.5-35b-a3b --bits Q4_K_M", "-ngl 99 -c 4096 --n-cpu-moe 24"
    first, second = (
        predicted(capsys, f"{line} -sm none {main}", asked, pair) for main in ("", "-mg 1")
    )
    assert set(first.data["attention"]) == {0}  # type: ignore[call-overload]
    assert set(second.data["attention"]) == {1}  # type: ignore[call-overload]
    assert second.data["tokens_per_s"] < first.data["tokens_per_s"]  # type: ignore[operator]
    assert second.value("--device") == "CUDA1"
    both = predicted(capsys, f"{line} -mg 1", asked, pair)
    assert "-mg counts with -sm none alone" in both.notes
    order = predicted(capsys, f"{line} -sm none -mg 1 -dev CUDA1,CUDA0", asked, pair)
    assert set(order.data["attention"]) == {0}  # type: ignore[call-overload]


def test_all_layers_and_as_many_as_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """`-ngl all` is 999; `auto`, or nothing, is the runtime's own fit until something is placed."""
    some = predicted(capsys, "-ngl all --n-cpu-moe 40 -c 4096")
    assert some.data == predicted(capsys, "-ngl 999 --n-cpu-moe 40 -c 4096").data
    assert some.data == predicted(capsys, "-ngl auto -ncmoe 40 -c 4096").data
    own = [*AIR.split(), "--context", "4096", "--threads", "16"]
    assert run(["predict", "--machine", TWO, *own, "--json"]) == 0
    alike = json.loads(capsys.readouterr().out)
    for line in ("-ngl auto -c 4096", "-c 4096", "-ngl -1 -c 4096"):
        assert predicted(capsys, line).data == alike
    lone = predicted(capsys, "-ngl auto -c 4096 --device CUDA1")
    assert {*lone.data["attention"], *lone.data["experts"]} == {-1, 1, 2}  # type: ignore[misc]
    for line in ("-ngl all -c 4096", "-ngl auto --fit off -c 4096", "-ngl auto -ts 1,1 -c 4096"):
        words = ["predict", "--machine", TWO, *AIR.split(), "--flags", line]
        assert "gpu0 lacks" in refused_command(capsys, words, 3)


def test_numa_is_printed_as_given(capsys: pytest.CaptureFixture[str]) -> None:
    """On two nodes each keeps its meaning; on one it changes nothing, which is said."""
    two = "rtx4090+2xepyc-9004"
    speeds = {}
    for kind in ("distribute", "isolate", "numactl"):
        found = predicted(capsys, f"{OFF} --numa {kind}", machine=two)
        assert found.value("--numa") == kind
        speeds[kind] = found.data["tokens_per_s"]
        assert ("numactl: predicted as" in found.notes) == (kind == "numactl")
        alone = predicted(capsys, f"{OFF} --numa {kind}")
        assert (alone.value("--numa"), "changes nothing" in alone.notes) == (kind, True)
    assert speeds["isolate"] != speeds["distribute"] == speeds["numactl"]


def test_batches_bound_what_is_computed_together(capsys: pytest.CaptureFixture[str]) -> None:
    """`-ub` is at most `-b`, 2,048 by default, and at most the context."""
    for line, ubatch, said in (
        ("-b 32", "32", False),
        ("-ub 4096", "2048", True),
        ("-ub 4096 -b 4096", "4096", False),
        ("--batch_size 64 --ubatch-size 128", "64", True),
    ):
        found = predicted(capsys, f"{OFF} {line}")
        assert (found.value("-ub"), "are computed together" in found.notes) == (ubatch, said)
    assert mib_used(capsys, f"{OFF} -b 32")[0] < mib_used(capsys, OFF)[0]


def test_flash_attention_and_loading_are_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    """What is given stands in place of what would be chosen."""
    off = predicted(capsys, f"{OFF} -fa off --no-mmap")
    assert (off.value("-fa"), off.words.count("-fa")) == ("off", 1)
    assert "-fa off: predicted as with flash attention" in off.notes
    assert "--no-mmap" in off.words
    assert "--load-mode" not in off.words
    auto = predicted(capsys, f"{OFF} --flash-attn auto")
    assert (auto.value("--flash-attn"), "-fa" in auto.words, auto.notes) == ("auto", False, "")
    assert predicted(capsys, OFF).value("-fa") == "on"


def test_patterns_are_matched_against_the_files_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Of no tensor: a warning that names the pattern; so for parts that are kept together."""
    for pattern, said in (
        (r"model\.layers\.[0-9]+\.mlp\.experts", "matches no tensor of glm-4.5-air"),
        (r"blk\.99\.ffn_up_exps", "matches no tensor"),
        (r"blk\.0\.ffn_up_exps", "matches no tensor"),  # a layer without experts
        (r"attn_q", "blk.0.attn_q.weight is predicted where its layer's attn_output lies"),
        (r"shexp", "blk.1.ffn_gate_shexp.weight is predicted where"),
        (r"blk\.3\.", ""),
        (r"\.ffn_.*_exps\.", ""),
        (r"blk\.46\.", ""),  # the block that predicts further tokens: not loaded
    ):
        if pattern == r"blk\.46\." and not get_model("glm-4.5-air").nextn:
            continue
        notes = predicted(capsys, f"{OFF} -ot '{pattern}=CPU'").notes
        assert said in notes, pattern
        assert (repr(pattern) in notes) == bool(said), notes


@pytest.mark.parametrize("name", ["glm-4.5-air", "deepseek-v3", "qwen3.5-35b-a3b", "gpt-oss-20b"])
def test_names_of_tensors_are_those_of_the_files(name: str) -> None:
    """Experts in layers that have some, dense parts in the others."""
    model = get_model(name)
    names = set(tensor_names(model))
    assert {"token_embd.weight", "output.weight"} <= names
    for layer in range(model.layers):
        moe = layer in model.moe_layers
        for part in ("gate", "up", "down"):
            assert (f"blk.{layer}.ffn_{part}_exps.weight" in names) == moe
            assert (f"blk.{layer}.ffn_{part}.weight" in names) == (not moe)
        assert f"blk.{layer}.attn_output.weight" in names


@pytest.mark.parametrize(
    ("line", "asked", "said"),
    [
        ("-c 4096", "--context 8192", "--context: is 8192, but --flags say -c 4096"),
        ("-c 4096", "--depth 8192", "--depth: must be at most 4096, not 8192"),
        ("-c 16384 -np 4", "--depth 8192", "--depth: must be at most 4096, not 8192"),
        ("--n-gpu-layer 3", "", "--n-gpu-layer: is not known; did you mean --n-gpu-layers?"),
        ("-c=9", "", "-c=9: is not known; did you mean -c 9?"),
        ("--ctx-sise=9", "", "--ctx-sise=9: is not known; did you mean --ctx-size 9?"),
        ("-c 99999999", "", "-c: must be at most 16777216, not 99999999"),
        ("-c 8k", "", "-c: must be a whole number from 0 on, not '8k'"),
        ("-ctk q8_0", "--kv-bits q4_0", "--kv-bits: is q4_0, but --flags say -ctk q8_0"),
        ("-ub 256", "--ubatch 1024", "--ubatch: is 1024, but --flags say -ub 256"),
        ("--cpu-moe", "--n-cpu-moe 3", "--n-cpu-moe: is 3, but --flags say --cpu-moe"),
        ("-ncmoe 4", "--n-cpu-moe 3", "--n-cpu-moe: is 3, but --flags say -ncmoe 4"),
        ("-nkvo", "", "-nkvo: a KV cache in host memory beside layers on a GPU"),
        ("--no-kv-offload", "", "-nkvo: a KV cache in host memory beside layers on a GPU"),
        ("-fa off -ctv q8_0", "", "-ctv: q8_0 needs flash attention"),
        ("--numa mirror", "", "--numa: must be one of distribute, isolate, numactl, not 'mirror'"),
        ("--rpc host:1", "", "--rpc: devices of other hosts are not predicted"),
        ("-sm none -mg 2", "", "-mg: must be below 2, the number of GPUs, not 2"),
        ("-ngl many", "", "-ngl: must be a whole number, all or auto, not 'many'"),
        ("-fa maybe", "", "-fa: must be on, off or auto, not 'maybe'"),
        ("-c -ub 512", "", "-c: needs a value"),
        ("-ngl 99 -ot", "", "-ot: needs a value"),
        ("-a 'open", "", "--flags: No closing quotation"),
        ("-ngl auto", "--runtime ik_llama.cpp", "-ngl: must be a whole number, not 'auto'"),
    ],
)
def test_what_cannot_be_is_one_line(
    line: str, asked: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Field, value, what would be right; options and flags that contradict each other."""
    words = ["predict", "--machine", TWO, *AIR.split(), *asked.split(), "--flags", line]
    assert said in refused_command(capsys, words)


def test_options_hold_for_what_flags_leave_open(capsys: pytest.CaptureFixture[str]) -> None:
    """`--kv-bits` for values where `-ctk` is of keys; the same said twice is no contradiction."""
    found = predicted(capsys, f"{OFF} -ctk q8_0", f"{AIR} --kv-bits q8_0")
    assert (found.value("-ctk"), found.value("-ctv")) == ("q8_0", "q8_0")
    same = predicted(capsys, "-ngl 99 -ncmoe 40 -c 8192", f"{AIR} --n-cpu-moe 40 --context 8192")
    assert same.data["experts"].count(2) == 39  # type: ignore[attr-defined]  # of the first 40 blocks one has no experts


SAID = {
    "--foo 3": "--foo is not known",
    "--metrix": "--metrix is not known: repeated, not predicted; did you mean --metrics?",
    "--jinja word": "'word' belongs to no flag",
    "-ctkd q8_0": "speculative decoding is not predicted",
    "-md draft.gguf": "speculative decoding is not predicted",
    "-tb 8": "prompts are predicted with the threads of -t",
    "-np 4": "4,096 tokens of cache, 1,024 for a request",
}


@pytest.mark.parametrize("line", SAID)
def test_what_is_not_predicted_is_said(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And repeated in the command; a table says it once."""
    found = predicted(capsys, f"{OFF} {line}")
    assert SAID[line] in found.notes
    assert line.split()[0] in found.words
    words = ["predict", "--machine", TWO, "--machine", "rtx4090+epyc-9004", *AIR.split()]
    assert run([*words, "--flags", f"{OFF} {line}"]) == 0
    assert capsys.readouterr().err.count(SAID[line]) == 1


def test_what_starts_the_program_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Variables and wrappers are named; the program itself, in any folder, is no flag."""
    before = "CUDA_VISIBLE_DEVICES=0 numactl --interleave=all"
    found = predicted(capsys, f"{before} /opt/llama-server {OFF}")
    for word in before.split():
        assert f"{word!r} belongs to no flag" in found.notes
    assert "llama-server'" not in found.notes
    for program in ("llama-server", "./server", "build\\\\bin\\\\llama-cli.exe"):
        assert predicted(capsys, f"{program} {OFF}").notes == ""


def test_what_fits_keeps_the_types_of_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest quantisation is looked for with the same flags."""
    asked = ["predict", "--machine", TWO, *AIR.split(), "--runtime", "ik_llama.cpp", "--flags"]
    line = refused_command(capsys, [*asked, "-ngl 99 -c 65536 -ctk q6_0"], 3)
    assert "it fits with --bits" in line


def test_common_lines_pass_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """What changes neither speed nor placement is repeated as it was given."""
    passed = (
        "--host 0.0.0.0 --port 8080 --jinja --temp 0.7 --top-p 0.8 --min-p 0 -n -1 -a air --mlock"
        " --chat-template chatml -p 'two words' --no-warmup --metrics --api-key k"
    )
    line = f"./build/bin/llama-server -m m.gguf {OFF} \\\n {passed}"
    found = predicted(capsys, line)
    assert found.notes == ""
    assert found.words[:3] == ["llama-server", "-m", "m.gguf"]
    text = " ".join(found.words)
    for flag in read_line(shlex.split(passed)).flags:
        assert " ".join(flag.words) in text
    named = predicted(capsys, f"-hf ggml-org/Air-GGUF:Q4_K_M {OFF}")
    assert named.words[1:3] == ["-hf", "ggml-org/Air-GGUF:Q4_K_M"]
    assert "-m" not in named.words


def example(flag: str) -> str:
    """Return a flag with a value that it takes."""
    own = {
        **{"-ctk": "q8_0", "-ctv": "q8_0", "-fa": "off", "-fit": "off", "-ot": "blk.3.ffn_.+=CPU"},
        **{"-sm": "none", "-ts": "2,1", "--device": "CUDA0", "--numa": "distribute"},
    }
    least, most = VALUES[flag]
    return " ".join([flag, *[own.get(flag, "3")] * max(least, most if flag in own else 0)])


def answer(capsys: pytest.CaptureFixture[str], line: str) -> tuple[str, str]:
    """Return what is printed, and the warnings or the refusal."""
    asked = "--model qwen3-30b-a3b --bits Q4_K_M --prompt 512 --flags"
    assert run(["predict", "--machine", TWO, *asked.split(), line]) in (0, 2, 3)
    said = capsys.readouterr()
    return said.out, said.err


PLAIN: dict[str, tuple[str, str]] = {}
"""Line -> what is answered to it, computed once."""


EVERY = sorted(VALUES)


@pytest.mark.parametrize(
    "flag",
    [
        *EVERY[::12],
        *(pytest.param(flag, marks=pytest.mark.slow) for flag in EVERY if flag not in EVERY[::12]),
    ],
)
def test_every_flag_changes_the_answer_or_is_reported(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page, its command or the lines beside it are others than without the flag."""
    line, given = "-ngl 99 -c 4096", example(flag)
    if line not in PLAIN:
        PLAIN[line] = answer(capsys, line)
    assert answer(capsys, f"{line} {given}") != PLAIN[line], given


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(25), marks=pytest.mark.slow)])
def test_no_word_is_dropped(capsys: pytest.CaptureFixture[str], seeds: range) -> None:
    """Random lines of words that nobody knows: each is repeated, or named on standard error."""
    rng = random.Random(4)
    for _ in seeds:
        words = [
            rng.choice(["--", "-", ""]) + "".join(rng.choices("abcxyz", k=6)) for _ in range(4)
        ]
        out, err = answer(capsys, f"-ngl 99 -c 4096 {' '.join(words)}")
        for word in words:
            assert word in out or word in err, (words, word)


def test_lines_are_read_as_words_with_their_values() -> None:
    """All spellings of a flag are one; values with a dash belong to their flag."""
    line = read_line(shlex.split("llama-server --n-gpu-layers 9 --gpu-layers -1 -r -x -fa -c 5"))
    assert line.given == {"-ngl": "-1", "-r": "-x", "-fa": "", "-c": "5"}
    assert [flag.words[0] for flag in line.flags][:2] == ["--n-gpu-layers", "--gpu-layers"]
    several = [name for names in FLAGS["read"].values() for name in names]
    assert len(several) == len(set(several))
    with pytest.raises(moeopt.InputError, match="-ts: needs a value"):
        read_line(["-ts"])
