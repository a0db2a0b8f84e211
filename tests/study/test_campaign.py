"""Campaign files: what they may say, and what is said of those that cannot be used."""

import json
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused
from tests.rooms.cli import run
from tests.rooms.problems import PROBLEMS
from tests.rooms.study import is_campaign, make_plan, read_campaign

TOML = """
campaign = "two parts"
instances = ["family"]
seeds = [0, 1]

[[part]]
methods = ["greedy", "milp"]
engine = "cbc"
warm_start = false

[[part]]
instances = ["family/1.json"]
methods = ["heuristics", "cp-sat"]
seeds = [7]
time_limits_s = [1, 2.5]
workers = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a family of two instances."""
    (tmp_path / "family").mkdir()
    for seed in (0, 1):
        moeopt.save(random_instance(seed), tmp_path / "family" / f"{seed}.json")
    return tmp_path


def write(folder: Path, text: str, name: str = "campaign.toml") -> Path:
    """Write a campaign file."""
    (folder / name).write_text(text)
    return folder / name


def test_parts_take_over_from_the_top(folder: Path) -> None:
    """Each part has its own settings, or those of the top level, or the defaults."""
    campaign = read_campaign(write(folder, TOML))
    first, second = (part.settings for part in campaign.parts)
    assert campaign.name == "two parts"
    assert (first.seeds, first.time_limits_s, first.engine) == ((0, 1), None, "cbc")
    assert (second.seeds, second.time_limits_s, second.engine) == ((7,), (1.0, 2.5), None)
    assert (first.workers, second.workers, campaign.workers) == (1, 2, 2)


def test_a_plan_is_the_product(folder: Path) -> None:
    """Instances x methods x seeds x limits, an instance's solves together."""
    plan = make_plan(read_campaign(write(folder, TOML)))
    assert [entry.instance.name for entry in plan.entries] == [
        random_instance(0).name,
        random_instance(1).name,
    ]
    heuristics = moeopt.methods("tri_domain")[1:].index("threshold")  # the first one is auto
    assert [len(entry.jobs) for entry in plan.entries] == [4, 4 + 2 * (heuristics + 1)]
    assert sum(len(entry.jobs) for entry in plan.entries) == len(list(plan.jobs()))
    jobs = plan.entries[0].jobs
    asked = [(job.method, job.seed, job.time_limit_s, job.workers, job.options) for job in jobs]
    milp = {"engine": "cbc", "warm_start": False}
    assert asked == [
        (method, seed, 60.0, 1, options)
        for seed in (0, 1)
        for method, options in (("greedy", {}), ("milp", milp))
    ]


def test_json_says_the_same(folder: Path) -> None:
    """A JSON object with the key `campaign`."""
    import tomllib

    path = write(folder, json.dumps(tomllib.loads(TOML)), "campaign.json")
    assert is_campaign(path)
    assert read_campaign(path).parts == read_campaign(write(folder, TOML)).parts
    assert not is_campaign(folder / "family" / "0.json")
    assert not is_campaign(folder)


def test_one_instance_in_two_families_is_solved_once(folder: Path) -> None:
    """It has a row in each; a compressed copy beside it is the same instance."""
    (folder / "other").mkdir()
    for name in ("family/copy.json.gz", "other/copy.json"):
        moeopt.save(random_instance(0), folder / name)
    plan = make_plan(
        read_campaign(write(folder, 'campaign = "x"\ninstances = ["family", "other"]'))
    )
    assert [entry.family for entry in plan.entries] == ["family", "family", "other"]
    rows = sum(len(entry.jobs) for entry in plan.entries)
    assert rows == 3 * len(list(plan.jobs())) / 2


def test_exact_means_all_but_brute_force(folder: Path) -> None:
    """So that "exact" can be said of instances of any size."""
    path = write(folder, 'campaign = "x"\ninstances = ["family"]\nmethods = ["exact"]')
    names = {job.method for job in make_plan(read_campaign(path)).entries[0].jobs}
    assert names == {"threshold", "cp-sat", "milp"}


def test_no_method_is_called_as_a_group() -> None:
    """Else it could not be asked for."""
    for problem in PROBLEMS:
        assert not {"heuristics", "exact"} & set(moeopt.methods(problem))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("campaign = ", "not valid TOML"),
        ('instances = ["family"]', "campaign: is missing"),
        ('campaign = "x"', "instances: is missing"),
        ('campaign = "x"\ninstances = []', "instances: "),
        ('campaign = "x"\ninstances = ["family"]\nmethod = ["greedy"]', "method: is not a known"),
        ('campaign = "x"\ninstances = ["family"]\nseeds = [-1]', "seeds[0]: must be at least 0"),
        ('campaign = "x"\ninstances = ["family"]\nseeds = [1.5]', "seeds[0]: must be an integer"),
        ('campaign = "x"\ninstances = ["family"]\ntime_limits_s = [0]', "time_limits_s[0]: "),
        ('campaign = "x"\ninstances = ["family"]\ntime_limits_s = [inf]', "time_limits_s[0]: "),
        ('campaign = "x"\ninstances = ["family"]\nworkers = 0', "workers: must be at least 1"),
        ('campaign = "x"\ninstances = ["family"]\n[[part]]\nseeds = "a"', "part[0].seeds: "),
        ('campaign = "x"\ninstances = ["family"]\ntime_limits_s = ["9"]', "time_limits_s[0]: "),
        ('campaign = "x"\npart = 3', "part: "),
    ],
)
def test_what_cannot_be_used_is_named(folder: Path, text: str, words: str) -> None:
    """One line: the file, the field, the reason."""
    path = write(folder, text)
    said = refused(read_campaign, path)
    assert said.startswith(f"{path}: ")
    assert words in said


def test_a_missing_instance_or_method_is_named(folder: Path) -> None:
    """Before anything is solved."""
    for line, words in (
        ('instances = ["nowhere.json"]', "nowhere.json: cannot be read"),
        ('instances = ["family"]\nmethods = ["best"]', "method: 'best' is unknown"),
    ):
        with pytest.raises(moeopt.InputError, match=words):
            make_plan(read_campaign(write(folder, f'campaign = "x"\n{line}')))


def test_an_unknown_engine_is_refused_before_anything_is_solved(folder: Path) -> None:
    """Also where a bound closes every instance, so that no engine would be asked."""
    text = TOML.replace('"cbc"', '"glop"')
    told = r"part\[0\]\.engine: 'glop' is unknown; known engines: highs"
    with pytest.raises(moeopt.InputError, match=told):
        read_campaign(write(folder, text))
    assert run(["gap", str(folder / "campaign.toml")]) == 2
