"""``moeopt model show``: what it prints of presets and configurations, and what it warns of."""

import json
from pathlib import Path

import pytest

from tests.rooms.cli import run
from tests.sim.published_models import MODELS

Capture = pytest.CaptureFixture[str]


def test_a_configuration_in_numbers(tmp_path: Path, capsys: Capture) -> None:
    """Llama-4 Scout: 12 layers see all tokens, 36 a chunk; a key that is not read is named."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS["llama-4-scout"].config | {"num_widget_experts": 3}))
    assert run(["model", "show", str(path), "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert printed.err == ""
    assert found["parameters"] == pytest.approx(109e9, rel=0.02)
    assert found["active_parameters"] == pytest.approx(17e9, rel=0.02)
    assert found["cache_bytes"] == {"131072": 7296 * 2**20}
    assert found["weights_bytes"] == 2 * found["parameters"]
    assert (found["layers"], found["dense_layers"], found["schema_version"]) == (48, 0, 2)
    (told,) = found["warnings"]
    assert told.startswith(f"{path}: num_widget_experts: not read")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("deepseek-v3", "all tokens by a latent key of 512 + 64"),
        ("gpt-oss-20b", "all tokens in 12; the last 128 tokens in 12"),
        ("qwen3-next-80b-a3b", "all tokens in 12; a recurrence in 36"),
        ("mixtral-8x7b", "46.70 billion, 12.88 billion for a token"),
        ("glm-4.5-air", "46, 1 of them without experts"),
    ],
)
def test_a_preset_in_words(model: str, says: str, capsys: Capture) -> None:
    """A line for each thing."""
    assert run(["model", "show", model]) == 0
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gemma-4-26b-a4b", "the last 1,024 tokens in 25; all tokens in 5"),
        ("nemotron-3-nano-30b-a3b", "none in 23; all tokens in 6"),
        ("lfm2-8b-a1b", "a convolution in 18; all tokens in 6"),
        ("deepseek-v4-flash", "the last 128 tokens and means of the others in 43"),
    ],
)
def test_layers_that_differ_in_words(name: str, says: str, tmp_path: Path, capsys: Capture) -> None:
    """How many see what."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODELS[name].config | {"moe_extra_layers": 2}))
    assert run(["model", "show", str(path)]) == 0
    printed = capsys.readouterr().out
    assert says in printed
    assert "moe_extra_layers: not read" in printed


def test_sizes_that_a_file_lacks_are_unknown(tmp_path: Path, capsys: Capture) -> None:
    """No heads, no cache; null in JSON, no line for people."""
    config = MODELS["mixtral-8x7b"].config | {"num_attention_heads": None}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert run(["model", "show", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["parameters"], found["cache_bytes"], found["weights_bytes"]) == (None,) * 3
    assert run(["model", "show", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "attention   not known" in printed
    assert "KV cache" not in printed


def test_what_is_no_model_is_refused(tmp_path: Path, capsys: Capture) -> None:
    """One line, exit code 2."""
    assert run(["model", "show", "mixtral-8x7"]) == 2
    assert "did you mean mixtral-8x7b" in capsys.readouterr().err
