"""One order of paths: that of the instance's fields, of the solution's domains, of the checker."""

import numpy as np

from tests.problems.layout.layout_random_instances import KINDS, random_instance
from tests.rooms.layout import (
    COSTS,
    DEVICE_OF,
    DOMAINS,
    IDLE,
    PATH_OF,
    Device,
    Instance,
    Path,
    scenario_loads,
)
from tests.rooms.tri_domain import STRIPED


def test_the_order_is_that_of_fields_and_domains() -> None:
    """Paths follow the fields of a scenario, devices the domains of a solution."""
    fields = {
        Path.HIT: "gpu_hit_ns",
        Path.GPU_STRIPED: "gpu_miss_striped_ns",
        Path.GPU_LOCAL: "gpu_miss_localized_ns",
        Path.CPU_STRIPED: "cpu_striped_ns",
        Path.CPU_LOCAL: "cpu_localized_ns",
        Path.NDP: "ndp_ns",
    }
    assert tuple(fields[path] for path in Path) == COSTS
    assert tuple(device.name.lower() for device in Device) == DOMAINS
    assert [Device(device) for device in DEVICE_OF[PATH_OF[:, 1, 0]]] == list(Device)


def test_times_under_a_layout_are_the_checkers() -> None:
    """One expert at a time: what each device is busy with, whatever the layout."""
    for number, instance in enumerate(_instances()):
        rng = np.random.default_rng(number)
        resident = rng.random(instance.experts) < 0.5
        dimm = rng.integers(STRIPED, instance.dimms, instance.experts)
        times = instance.path_times
        cost, dram = (times.under(of, resident, dimm) for of in (times.cost, times.read))
        dram[Device.NDP] = cost[Device.NDP]
        for s, scenario in enumerate(instance.scenarios):
            for row, tokens in enumerate(scenario.tokens):
                for device in Device:
                    if device == Device.NDP and dimm[row] == STRIPED:
                        continue
                    assignment = [None] * instance.experts
                    assignment[row] = DOMAINS[device]
                    places = [None if d == STRIPED else d for d in dimm.tolist()]
                    loads = scenario_loads(instance, s, resident.tolist(), places, assignment)
                    own = loads.dimm_ns[0 if dimm[row] == STRIPED else dimm[row]]
                    assert dram[device, s, row] == own
                    if device != Device.NDP:
                        assert cost[device, s, row] == (loads.gpu_ns, loads.cpu_ns)[device]
                    elif tokens:
                        assert cost[device, s, row] == scenario.ndp_ns[row]
    assert IDLE not in set(Device)


def test_idle_experts_cost_nothing() -> None:
    """What a scenario says of experts without tokens means nothing, and is 0 in the arrays."""
    for instance in _instances():
        times = instance.path_times
        assert (times.cost[:, ~times.active] == 0).all()
        for path, name in zip(Path, COSTS, strict=True):
            raw = np.array([getattr(scenario, name) for scenario in instance.scenarios])
            assert (times.cost[path] == np.where(times.tokens > 0, raw, 0)).all()


def _instances() -> list[Instance]:
    return [random_instance(seed, kind) for kind in KINDS for seed in range(3)]
