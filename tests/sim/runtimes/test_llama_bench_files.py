"""What llama-bench wrote, of the random models of ``benchmarks/real`` on a machine without a GPU."""

from pathlib import Path

import pytest

from moeopt.errors import InputError
from moeopt.sim.model_shape import ModelShape
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.runtimes.calibration import calibrate
from moeopt.sim.runtimes.measurements import read_measurements

DATA = Path(__file__).parents[1] / "data" / "llama_bench"


def random_model(name: str, bits: str) -> ModelShape:
    """Return a shape for a file's name: experts used are in it."""
    width, top_k = name.removeprefix("random-").split("-")[:2]
    assert width in ("q8_0", "q4_0")
    assert bits == ""
    own = {"name": name, "top_k": int(top_k.removeprefix("top")), "layers": 8, "routed_experts": 32}
    return get_model("qwen3-30b-a3b").model_copy(update=own)


def test_prompts_are_left_out_and_the_depth_counts() -> None:
    """Two tests generate 8 tokens each, from contexts of 0 and 64, by 1 and by 2 threads."""
    found = read_measurements(DATA / "threads_prompt_depth.json", model_of=random_model)
    assert [point.context for point in found] == [4, 68, 4, 68]
    assert [point.tokens_per_s for point in found] == [30.144552, 30.083754, 11.44958, 7.413329]
    assert {point.model.top_k for point in found} == {4}


def test_a_build_without_gpu_is_cpu_only_whatever_its_layers_on_the_gpu() -> None:
    """It writes -1 layers on the GPU, its default; the machine may have one all the same."""
    machine = get_machine("rtx4090+epyc-9004")
    for point in read_measurements(DATA / "two_models.json", model_of=random_model):
        assert point.cpu_only
        setting = point.on(machine)
        assert setting.machine.gpu is None
        assert set(setting.host_calls) == {1.0}


def test_two_models_in_one_file_calibrate_a_machine() -> None:
    """Each has its own name and experts per token."""
    points = read_measurements(DATA / "two_models.json", model_of=random_model)
    assert [point.model.top_k for point in points] == [2, 8]
    machine = get_machine("epyc-9004")
    fitted = calibrate(machine, points)
    assert [abs(point.error) < 0.05 for point in fitted.residuals] == [True, True]


def test_a_file_that_is_not_at_hand_asks_for_the_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model_filename: .*random-q4_0-top2.*--model says"):
        read_measurements(DATA / "two_models.json")
