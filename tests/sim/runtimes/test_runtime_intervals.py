"""Intervals: as wide as costs are uncertain there and machines differ; factors among the terms."""

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

import moeopt
from moeopt import InputError, get_machine
from tests.rooms.sim import (
    PRIOR,
    TERMS,
    Context,
    Setting,
    amounts,
    as_vector,
    expected_sd,
    factored,
    get_model,
    get_runtime,
    sensitivity,
    token_us,
    vendor_of,
    within,
)

FACTORS = [name for name, term in PRIOR.items() if "of" in term]


@pytest.mark.parametrize(
    ("machine", "model"),
    [
        ("rtx4090+epyc-9004", "deepseek-v2-lite"),
        ("rx9070xt+ryzen-am5", "qwen3.5-35b-a3b"),
        ("epyc-9004", "qwen3-next-80b-a3b"),
        ("m2-ultra", "gpt-oss-120b"),
    ],
)
def test_slopes_are_those_of_the_time(machine: str, model: str) -> None:
    """By how much the time follows each cost, factors included: as finite differences say."""
    setting = Setting(get_machine(machine), get_model(model), context=Context(4096))
    calls = (1.0 if setting.machine.nodes else 0.0,) * len(setting.model.moe_layers)
    row, costs = amounts(setting, calls), as_vector(get_runtime("llama.cpp").costs)
    total, slopes = sensitivity(row, costs)
    assert total == pytest.approx(token_us(row, costs))
    for number in range(len(TERMS)):
        more = costs.copy()
        more[number] *= 1.0001
        change = np.log(token_us(row, more) / total) / np.log(1.0001)
        assert slopes[number] == pytest.approx(change, abs=1e-3), TERMS[number]


def test_factors_multiply_their_terms() -> None:
    """A factor's own entry is nothing; what it is of takes its power."""
    for name in FACTORS:
        row, costs = np.zeros(len(TERMS)), np.ones(len(TERMS))
        of = [TERMS.index(term) for term in PRIOR[name]["of"]]
        row[of], row[TERMS.index(name)], costs[TERMS.index(name)] = 1.0, 3.0, 2.0
        times = factored(row, costs)
        assert (times[of] == 8.0).all()
        assert times.sum() == 8.0 * len(of)


def test_the_expected_size_by_hand() -> None:
    """Costs by their covariance, a machine by its shares on GPU and host, a point by itself."""
    slopes = np.zeros(len(TERMS))
    gpu, host = TERMS.index("gpu_read"), TERMS.index("host_read")
    slopes[[gpu, host]] = 0.25, 0.75
    matrix = np.zeros((len(TERMS), len(TERMS)))
    matrix[gpu, gpu], matrix[host, host], matrix[gpu, host] = 0.04, 0.01, 0.0
    machine = (0.25 * 0.15) ** 2 + (0.75 * 0.2) ** 2
    costs = 0.25**2 * 0.04 + 0.75**2 * 0.01
    found = expected_sd(slopes, matrix, (0.15, 0.2), 0.1)
    assert found == pytest.approx(np.sqrt(machine + costs + 0.01))


def test_a_class_that_nobody_measured_is_wide_and_says_so() -> None:
    """A GPU of Intel has the interval that its factor's expectation asks for; a 4090 has not."""
    known = moeopt.predict("rtx4090+ryzen-am5", "qwen3-30b-a3b", bits="Q4_K_M", n_cpu_moe=0)
    new = moeopt.predict("arc-pro-b60+ryzen-am5", "qwen3-30b-a3b", bits="Q4_K_M", n_cpu_moe=0)
    assert new.high / new.low > 1.3 * known.high / known.low
    assert "no machine of its class measured (Intel GPU)" in new.expect
    assert "measured (" not in known.expect
    assert new.speeds[0].decode < known.speeds[0].decode


def test_an_older_runtime_is_slower() -> None:
    """By a year's factor of fixed times, and more where linear attention is."""
    asked = {"bits": "Q4_K_M", "n_cpu_moe": 20}
    for model in ("qwen3-30b-a3b", "qwen3.5-35b-a3b"):
        speeds = [
            moeopt.predict("rtx4090+ryzen-am5", model, runtime_date=when, **asked).tokens_per_s
            for when in (date(2025, 1, 1), "2026-01-01", None)
        ]
        assert speeds == sorted(speeds)
        assert speeds[0] < speeds[2]
    with pytest.raises(InputError, match="runtime_date: must be a date as in 2026-03-01"):
        moeopt.predict("rtx4090+ryzen-am5", "qwen3-30b-a3b", runtime_date="soon")


def test_an_older_runtime_on_several_gpus() -> None:
    """The split of layers is timed by the same version."""
    speeds = [
        moeopt.predict("2xrtx3090+epyc-7002", "glm-4.5-air", bits="Q4_K_M", runtime_date=when)
        for when in ("2025-01-01", None)
    ]
    assert speeds[0].tokens_per_s < 0.97 * speeds[1].tokens_per_s


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("NVIDIA GeForce RTX 4090", None),
        ("AMD Radeon RX 9070 XT", "amd"),
        ("AMD Radeon 8060S (Strix Halo)", "amd"),
        ("RX 6900 XT", "amd"),
        ("Apple M1 Max", "apple"),
        ("Intel Arc B580", "intel"),
        ("some card", None),
    ],
)
def test_the_vendor_of_a_name(name: str, vendor: str | None) -> None:
    """NVIDIA is what others are compared with, and what a name without a vendor is taken for."""
    assert vendor_of(name) == vendor


def test_every_part_has_the_vendor_that_its_file_says() -> None:
    """Names of parts say it: no GPU of another vendor counts as NVIDIA's."""
    for name, vendor in (("m3-max", "apple"), ("ryzen-ai-max-395", "amd"), ("dgx-spark", None)):
        assert vendor_of(get_machine(name).gpus[0].only("gpu").name) == vendor
    for part, vendor in (("rx7900xtx", "amd"), ("mi300x", "amd"), ("arc-b580", "intel")):
        machine = get_machine(f"{part}+epyc-9004")
        assert vendor_of(machine.gpus[0].only("gpu").name) == vendor


def test_barriers_grow_as_the_fit_says() -> None:
    """Twice the threads: the factor once; rates and reads apart."""
    setting = Setting(get_machine("epyc-9004"), get_model("qwen3-30b-a3b"), threads=16)
    calls, costs = (1.0,) * 48, as_vector(get_runtime("llama.cpp").costs)
    at = TERMS.index("host_expert_us")
    few, many = (factored(amounts(replace(setting, threads=n), calls), costs)[at] for n in (16, 32))
    assert many / few == pytest.approx(get_runtime("llama.cpp").costs["barrier_threads"])


def test_prompts_have_an_interval() -> None:
    """In Python, in JSON, on one GPU and on several; a slower link makes uploads slower."""
    for machine in ("rtx4090+ryzen-am5", "2xrtx3090+epyc-7002"):
        found = moeopt.predict(machine, "glm-4.5-air", bits="Q4_K_M", prompt=4000)
        first = json.loads(json.dumps(found.to_dict()))["speeds"][0]
        low, speed, high = (first[f"prompt_{name}"] for name in ("low", "tokens_per_s", "high"))
        assert low < speed < high
        assert high / low > 1.5
    narrow = moeopt.set_machine(get_machine("rtx4090+ryzen-am5"), {"pcie.gb_s": 4})
    slow = moeopt.predict(narrow, "glm-4.5-air", bits="Q4_K_M", prompt=4000)
    wide = moeopt.predict("rtx4090+ryzen-am5", "glm-4.5-air", bits="Q4_K_M", prompt=4000)
    assert slow.prompt_tokens_per_s < 0.5 * wide.prompt_tokens_per_s


def test_calibrated_settings_have_the_interval_of_calibrations() -> None:
    """Whatever is uncertain elsewhere."""
    head = get_machine("rtx4090+epyc-9004")
    setting = Setting(head, get_model("mixtral-8x7b"))
    assert within(setting, (1.0,) * 32).certainty == "not calibrated"
    assert within(setting, (1.0,) * 32).factor > within(setting, (0.0,) * 32).factor
