"""Expert parallelism in one command: maps of all layers, in tokens, beside EPLB's."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import moeopt
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.sim import Counts, get_model
from tests.rooms.solvers import Limits

MODEL = get_model("deepseek-v2-lite").model_copy(update={"layers": 6})
LAYERS, EXPERTS, RANKS, COPIES = 5, 64, 8, 16


def counted() -> np.ndarray:
    """Return counts of a skewed routing, shape (layers, experts)."""
    rng = np.random.default_rng(5)
    weights = np.array([rng.permutation((1.0 + np.arange(EXPERTS)) ** -0.6) for _ in range(LAYERS)])
    return np.round(3000 * weights / weights.max()).astype(int) + 20


@pytest.fixture
def counts_csv(tmp_path: Path) -> Path:
    """Return a file of counts, layers numbered as the model's, whose file lies beside it."""
    moeopt.save(MODEL, tmp_path / "model.json")
    lines = ["layer,expert,count"]
    for layer, row in enumerate(counted(), start=1):
        lines += [f"{layer},{expert},{count}" for expert, count in enumerate(row)]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def fullest(rows: list[list[int]], ranks: int = RANKS) -> float:
    """Return the tokens on the fullest rank, layer by layer, by the slots alone."""
    total = 0.0
    for counts, row in zip(counted(), rows, strict=True):
        copies = np.bincount(row, minlength=EXPERTS)
        assert copies.min() >= 1
        each = np.array(row).reshape(ranks, -1)
        assert all(len(set(own)) == len(own) for own in each.tolist())
        total += float((counts / copies)[each].sum(axis=1).max())
    return total


def command(counts: Path, more: str = "") -> list[str]:
    """Return the words of a plan of all layers."""
    asked = f"plan --ep-size {RANKS} --redundant-experts {COPIES} --work-limit 1 {more}"
    model = str(counts.with_name("model.json"))
    return [*shlex.split(asked), "--counts", str(counts), "--model", model]


def test_maps_have_the_tokens_that_are_printed(
    counts_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command for all layers; each runtime's file holds the same slots."""
    maps = {}
    for to in ("sglang", "vllm-ascend", "tensorrt-llm"):
        out = tmp_path / f"{to}.json"
        assert run(command(counts_csv, f"--to {to} --out {shlex.quote(str(out))} --json")) == 0
        said = json.loads(capsys.readouterr().out)
        maps[to] = Path(said["map"]).read_text()
    of_sglang = json.loads(maps["sglang"])["physical_to_logical_map"]
    assert len(of_sglang) == MODEL.layers
    rows = [of_sglang[layer] for layer in MODEL.moe_layers]
    assert {len(row) for row in of_sglang} == {EXPERTS + COPIES}
    layers = json.loads(maps["vllm-ascend"])["layer_list"]
    ascend = [[e for rank in one["device_list"] for e in rank["device_expert"]] for one in layers]
    lines = re.findall(r"^  (\d+): \[(.*)\]$", maps["tensorrt-llm"], re.MULTILINE)
    assert [int(layer) for layer, _ in lines] == [*MODEL.moe_layers]
    assert ascend == rows == [json.loads(f"[{row}]") for _, row in lines]
    tokens = said["tokens_on_fullest_rank"]
    assert tokens["optimum"] == pytest.approx(fullest(rows), abs=1e-3)
    assert tokens["no_copies"] == fullest([[*range(EXPERTS)]] * LAYERS)
    assert tokens["optimum"] <= tokens["eplb"] < tokens["no_copies"]
    assert said["bound_tokens"] <= tokens["optimum"] <= 1.01 * said["bound_tokens"]
    [units], [bound] = said["proof"]["objective"], said["proof"]["bound"]
    assert units / bound == pytest.approx(tokens["optimum"] / said["bound_tokens"], rel=1e-6)
    assert said["speeds"] == []
    assert said["mean_tokens"] == pytest.approx(counted().sum() / RANKS, abs=1e-3)


def test_eplb_is_deepseeks(counts_csv: Path) -> None:
    """The row beside the plan has the tokens of the heuristic of that name, layer by layer."""
    report = moeopt.plan_expert_parallel(counts_csv, RANKS, COPIES, model=MODEL)
    theirs = report.defaults[0]
    assert theirs.score == pytest.approx(
        fullest([list(row) for row in theirs.decision.physical_to_logical]), abs=1e-3
    )
    layer = moeopt.replication.Instance.from_arrays(
        loads=counted()[3], devices=RANKS, slots=10, max_copies=RANKS, name="third"
    )
    objective = moeopt.solve(layer, method="eplb").objective
    assert report.more["layers"][3]["eplb"] == pytest.approx(
        objective / layer.units_per_token, abs=1e-3
    )


def test_groups_stay_in_their_node() -> None:
    """Two nodes of four ranks, eight groups: no group has copies in both."""
    counts = Counts("drawn", counted()[None, :1])
    report = moeopt.plan_expert_parallel(
        counts, RANKS, COPIES, nodes=2, groups=8, limits=Limits(work=0.1)
    )
    for row in report.best.decision.physical_to_logical:
        slots = np.array(row).reshape(2, -1)
        groups = [set((own // 8).tolist()) for own in slots]
        assert groups[0].isdisjoint(groups[1])
    assert report.defaults[0].name == "EPLB, hierarchical policy"


def test_the_fewest_copies_by_default() -> None:
    """64 experts over six ranks take two more."""
    counts = Counts("drawn", counted()[None, :2])
    report = moeopt.plan_expert_parallel(counts, 6)
    assert report.best.decision.redundant == 2
    assert report.to_dict()["tokens_on_fullest_rank"]["no_copies"] is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--machine trimoe", "--machine: has no effect beside --ep-size"),
        ("--bits 4", "--bits: has no effect beside --ep-size"),
        ("--to sglang", "--to, --out: must be given together"),
        ("--to vllm --out x.json", "--to: 'vllm' is unknown"),
        ("--groups 8", "--groups: needs several nodes"),
        ("--nodes 3", "--nodes: must divide the 8 ranks, not 3"),
    ],
)
def test_refused(
    more: str, says: str, counts_csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, by the option's name."""
    assert says in refused_command(capsys, command(counts_csv, more))


def test_what_is_missing(counts_csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts, ranks, or a machine; slots that do not divide evenly."""
    given = f"plan --model {shlex.quote(str(counts_csv.with_name('model.json')))}"
    for words, says in (
        (f"{given} --ep-size 8", "--counts: is missing"),
        (f"{given} --nodes 2", "--ep-size: is missing"),
        (given, "--machine: is missing"),
        (
            f"{given} --ep-size 8 --redundant-experts 3 --counts {shlex.quote(str(counts_csv))}",
            "--redundant-experts: must be a multiple of 8, at most 448, not 3",
        ),
    ):
        assert says in refused_command(capsys, shlex.split(words))
