"""The text Gantt chart, and the lanes behind it."""

from moeopt.cli.gantt import draw
from moeopt.core.view import Bar, Lane
from moeopt.problems.tri_domain.check import loads
from moeopt.problems.tri_domain.heuristics import trimoe
from moeopt.problems.tri_domain.view import facts, lanes
from tests.problems.tri_domain.random_instances import random_instance


def test_bars_are_drawn_to_scale() -> None:
    """Half the time is half the width, labels stand where they fit."""
    gpu = Lane("GPU", (Bar(0, 500, "7", "work"), Bar(500, 1000, "12", "work")))
    dimm = Lane("DIMM 0", (Bar(0, 250, "7", "read"),))
    rows = draw([gpu, dimm, Lane("CPU", ())], width=38).splitlines()
    assert rows[0] == "   GPU |7========|12=======" + "0.001".rjust(9)
    assert rows[1] == "DIMM 0 :::::" + "0.000".rjust(15 + 9)
    assert rows[2] == "   CPU " + "0.000".rjust(20 + 9)


def test_lanes_are_as_long_as_the_checker_says() -> None:
    """Every device's lane ends at its load, and its bars follow one another without gaps."""
    for seed in range(30):
        instance = random_instance(seed)
        solution = trimoe(instance)
        load = loads(instance, solution)
        shown = lanes(instance, solution)
        assert [lane.end_ns for lane in shown] == [load.gpu_ns, load.cpu_ns, *load.dimm_ns]
        for lane in shown:
            starts = [bar.start_ns for bar in lane.bars]
            assert starts == [0, *(bar.end_ns for bar in lane.bars[:-1])][: len(starts)]


def test_facts_name_the_bottleneck() -> None:
    """The device that ends last, and how many end with it."""
    for seed in range(30):
        instance = random_instance(seed)
        solution = trimoe(instance)
        load = loads(instance, solution)
        found = facts(instance, solution)
        busy = {"gpu": load.gpu_ns, "cpu": load.cpu_ns, "dimm": max(load.dimm_ns)}
        assert busy[str(found["bottleneck"])] == load.makespan_ns
        every = [load.gpu_ns, load.cpu_ns, *load.dimm_ns]
        assert found["devices_at_makespan"] == every.count(max(every))
