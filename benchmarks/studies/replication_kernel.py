"""Copies of experts as devices feel them: times of kernels, and which rule is best where.

    python benchmarks/studies/replication_kernel.py fit --data DIR
    python benchmarks/studies/replication_kernel.py map [--out docs/replication_kernel.svg]
    python benchmarks/studies/replication_kernel.py moves

``fit``: the times of `moeopt.problems.replication.generate` from DIR/wideep_moe_h100.csv
(docs/studies.md says where it is from). Half of the configurations (model, slots, ranks, law,
with EPLB or without; by a hash of them) are fitted, the others are predicted. The file says how
many tokens chose an expert of the timed rank, not how many experts had tokens: loads are drawn by
its law, a bounded power law, 24 times, and placed as EPLB does or in order; the eight draws whose
fullest rank is nearest to the file's number stand for the row. Copies with equal tokens are placed
expert by expert, as this number says: with one or two tokens and 288 slots the first copies, which
the tokens go to, meet on the first ranks. So is DIR/moe_op_a100.csv, all experts on one GPU.
Three forms: the larger of readings and tokens, their sum, and the larger with a part of each
token's time that nothing hides, which is the problem's; "shipped": this with the times of
`KERNELS`. "Copies help": whether 288 slots beat 256, both under EPLB, where the times differ by
more than 5 %: of pairs of which one or both were not fitted, and of those that were.
``map``: tokens per rank x ranks x skew: no copies, EPLB with an eighth more slots, METRO on these
copies, each knowing the loads, and the best known of any copies with a free split: the slowest
rank's kernel, launch included, over the best. In the picture N, E and M name the simplest rule that
is within 1 % of the best one, and the number says how many % the best known lies below that one.
``moves``: windows of 1,000 steps one after the other, each decided on the one before: never moving,
moving every 4, 2, 1 windows, moving if the last window says it pays, few moves by SwiftBalancer;
over the best sequence of placements found in hindsight, which has its bound. A copy that moves
costs nothing (hidden), its weights over the link while all ranks receive, or one after the other.
"""

import argparse
import csv
import hashlib
import os
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import moeopt
from benchmarks.rooms.replication import (
    HEURISTICS,
    KERNELS,
    Instance,
    Solution,
    best_shares,
    lower_bound,
    objective,
    pack,
    replicate,
)

Floats = NDArray[np.float64]

TRIED, DRAWS = 24, 8
"""Draws of loads for a row of the fullest rank, and those that stand for a row."""
GPU = "h100-fp8"
EXPERTS, TOP_K, HIDDEN, INTERMEDIATE = 256, 8, 7168, 2048
"""DeepSeek-V3's layer, which `map` and `moves` have."""


def drawn(tokens: int, experts: int, top_k: int, power: float, seed: int) -> Any:
    """Return loads by a bounded power law, rounded to `tokens` x `top_k`."""
    rng = np.random.default_rng([seed, tokens, experts, int(100 * power)])
    low, high = (1.0, 0.8 * tokens) if tokens * top_k > experts else (0.01, 2.0)
    ends = high ** (1 - power), low ** (1 - power)
    sample = ((ends[0] - ends[1]) * rng.random(experts) + ends[1]) ** (1 / (1 - power))
    loads = np.minimum(np.rint(sample / sample.sum() * tokens * top_k), tokens).astype(int)
    left, expert = tokens * top_k - int(loads.sum()), 0
    while left:
        if left > 0 and loads[expert] < tokens:
            loads[expert] += 1
            left -= 1
        elif left < 0 and loads[expert] > 0:
            loads[expert] -= 1
            left += 1
        expert = (expert + 1) % experts
    return loads


def fullest(loads: Any, slots: int, ranks: int, balanced: bool) -> Floats:
    """Return the rank with most tokens: experts with tokens, these, and how many choose any."""
    on = list(np.arange(len(loads)).reshape(ranks, -1))
    if balanced:
        weights = loads.astype(np.float32)
        counts = np.array(replicate(weights, slots, slots))
        copies = np.repeat(np.arange(len(loads)), counts)
        shares = (weights / counts.astype(np.float32))[copies]
        on = [copies[held] for held in pack(shares, ranks, slots // ranks)]
    count = np.bincount(np.concatenate(on), minlength=len(loads))
    seen = np.zeros(len(loads), dtype=int)
    best = np.zeros(1)
    for held in on:
        shares = []
        for expert in held:
            more = seen[expert] < loads[expert] % count[expert]
            shares.append(loads[expert] // count[expert] + more)
            seen[expert] += 1
        best = max(best, np.array(shares), key=np.sum)
    tokens = loads.sum() / TOP_K
    chosen = tokens * (1 - np.prod(1 - np.minimum(1, best / tokens)))
    return np.array([np.count_nonzero(best), best.sum(), chosen])


@dataclass(frozen=True)
class Measured:
    """Kernels of one table: what was run, how long it took, and what the timed rank had.

    `keys` are configurations, by whose hash half of them are fitted; `weights` are those of an
    expert in millions, `experts` and `tokens` the means over `DRAWS` draws of what the rank has.
    """

    name: str
    keys: list[tuple[object, ...]]
    batch: list[int]
    weights: Floats
    experts: Floats
    tokens: Floats
    us: Floats

    @property
    def fitted(self) -> NDArray[np.bool_]:
        """Which rows are fitted."""
        chosen = (int(hashlib.sha256(repr(key).encode()).hexdigest(), 16) for key in self.keys)
        return np.array([number % 2 == 0 for number in chosen])


def wide(data: Path) -> Measured:
    """Return the fullest rank's kernels on H100, with EPLB's copies and without."""
    numbers = ("hidden_size", "inter_size", "num_experts", "num_slots", "moe_ep_size")
    keys, batch, us, seen = [], [], [], []
    known: dict[tuple[object, ...], Floats] = {}
    for row in rows_of(data / "wideep_moe_h100.csv"):
        law = row["distribution"].split("_")
        hidden, inter, experts, slots, ranks = (int(row[name]) for name in numbers)
        power, balanced, tokens = float(law[2]), len(law) > 3, int(row["num_tokens"])
        case = experts, slots, ranks, power, balanced, tokens
        if case not in known:
            each = (drawn(tokens, experts, TOP_K, power, seed) for seed in range(TRIED))
            known[case] = np.array([fullest(one, slots, ranks, balanced) for one in each])
        keys.append((hidden, inter, experts, slots, ranks, power, balanced))
        batch.append(tokens)
        us.append(1000 * float(row["latency"]))
        off = np.abs(known[case][:, 2] - int(row["rank0_num_tokens"]))
        seen.append(known[case][np.argsort(off, kind="stable")[:DRAWS]].mean(axis=0))
    millions = np.array([3 * int(str(key[0])) * int(str(key[1])) / 1e6 for key in keys])
    on_rank = np.array(seen)
    return Measured(
        "h100-fp8", list(keys), batch, millions, on_rank[:, 0], on_rank[:, 1], np.array(us)
    )


def single(data: Path, dtype: str, name: str) -> Measured:
    """Return the fused kernel of all experts on one A100, by law of the loads."""
    numbers = ("hidden_size", "inter_size", "topk", "num_experts")
    keys, batch, us, seen = [], [], [], []
    known: dict[tuple[object, ...], float] = {}
    for row in rows_of(data / "moe_op_a100.csv"):
        if row["moe_dtype"] != dtype:
            continue
        hidden, inter, top_k, experts = (int(row[name]) for name in numbers)
        law, tokens = row["distribution"], int(row["num_tokens"])
        case = tokens, experts, top_k, law
        if law == "balanced":
            known[case] = min(experts, tokens * top_k)
        elif case not in known:
            power = float(law.split("_")[2])
            each = (drawn(tokens, experts, top_k, power, seed) for seed in range(DRAWS))
            known[case] = float(np.mean([np.count_nonzero(one) for one in each]))
        power = 0.0 if law == "balanced" else float(law.split("_")[2])
        keys.append((dtype, hidden, inter, top_k, experts, power))
        batch.append(tokens)
        us.append(1000 * float(row["latency"]))
        seen.append((known[case], tokens * top_k, 3 * hidden * inter / 1e6))
    read, given, millions = np.array(seen).T
    return Measured(name, list(keys), batch, millions, read, given, np.array(us))


def rows_of(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with file.open() as lines:
        return list(csv.DictReader(lines))


FORMS = ("larger", "sum", "partly", "shipped")
"""Of reading and tokens: the larger, the sum, or the larger and a part that nothing hides."""


def predicted(form: str, p: Floats, table: Measured) -> Floats:
    """Return microseconds; `p` are logarithms of launch, read, pass and token times."""
    launch, read, besides, token = np.exp(p)
    reading = read * table.weights * table.experts
    work = table.weights * table.tokens
    if form == "larger":
        return np.asarray(launch + np.maximum(reading, token * work))
    hidden = reading if form == "sum" else np.maximum(reading, token * work)
    return np.asarray(launch + hidden + besides * work)


def fit(arguments: argparse.Namespace) -> None:
    """Print the fitted times and the errors on what was not fitted."""
    times = "launch us | read us/M | pass us/M | token us/M"
    errors = "error on the fitted | on the others | p90 | sign | of fitted"
    print(f"| kernel | form | {times} | {errors} |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    tables = (wide(arguments.data), single(arguments.data, "bfloat16", "a100-bf16"),
              single(arguments.data, "int4_wo", "a100-int4"))  # fmt: skip
    for table in tables:
        used = table.fitted
        for form in FORMS:

            def residual(p: Floats, form: str = form, table: Measured = table) -> Floats:
                return np.asarray(np.log(predicted(form, p, table) / table.us)[table.fitted])

            kernel = KERNELS[table.name]
            launch, read = kernel.launch_ns / 10**3, kernel.read_ps_per_thousand / 10**3
            each = kernel.pass_ps_per_million / 10**6, kernel.token_ps_per_million / 10**6
            p = np.log([launch, read, *each])
            if form != "shipped":
                start = np.array([3.6, -1.0, -5.5, -6.0])
                p = least_squares(residual, start, loss="soft_l1", f_scale=0.1).x
            guess = predicted(form, p, table)
            error = np.abs(guess / table.us - 1)
            right = [signs(table, guess, known) for known in (False, True)]
            cells = [table.name, form, f"{np.exp(p[0]):.2f}", f"{np.exp(p[1]):.4f}"]
            cells += [f"{np.exp(p[2]):.6f}" if form != "larger" else "-"]
            cells += [f"{np.exp(p[3]):.6f}" if form != "sum" else "-"]
            cells += [f"{np.median(error[used]):.1%}", f"{np.median(error[~used]):.1%}"]
            cells += [f"{np.quantile(error[~used], 0.9):.1%}"]
            cells += [f"{sum(each)} of {len(each)}" if each else "-" for each in right]
            print(f"| {' | '.join(cells)} |", flush=True)


def signs(table: Measured, guess: Floats, fitted: bool) -> list[bool]:
    """Return for pairs with and without copies, both fitted or not, whether the sign is right."""
    place = {one: number for number, one in enumerate(zip(table.keys, table.batch, strict=True))}
    right, used = [], table.fitted
    for (key, tokens), without in place.items():
        more = place.get(((*key[:3], 288, *key[4:]), tokens))
        if key[3] == 288 or more is None or fitted != (used[without] and used[more]):
            continue
        differ = np.log(table.us[more] / table.us[without])
        if abs(differ) > np.log(1.05):
            right.append(bool(differ * np.log(guess[more] / guess[without]) > 0))
    return right


def layer(
    loads: Any, ranks: int, slots: int, split: str = "free", gpu: str = GPU, **more: Any
) -> Instance:
    """Return the instance of DeepSeek-V3's experts on a GPU."""
    kernel = {"work": "kernel", **KERNELS[gpu].of(HIDDEN, INTERMEDIATE)} | more
    if kernel["work"] == "tokens":
        kernel = {}
    return Instance.from_arrays(
        loads=loads,
        devices=ranks,
        slots=slots,
        max_copies=8,
        name="layer",
        split=split,
        **kernel,
    )


def skewed(tokens: int, power: float, seed: int) -> Any:
    """Return loads of a batch: tokens choose eight experts each by popularity of a power law."""
    rng = np.random.default_rng([seed, tokens])
    popularity = 1.0 / np.arange(1, EXPERTS + 1) ** power
    share = np.minimum(1.0, TOP_K * popularity / popularity.sum())
    return rng.permutation(rng.binomial(tokens, np.minimum(1.0, share * TOP_K / share.sum())))


MAP_RANKS = (2, 4, 8, 16, 32, 64, 128, 256)
MAP_TOKENS = tuple(2**n for n in range(14))
MAP_SKEWS = (0.2, 0.6, 1.0)
RULES = {"no copies": "eplb-without-copies", "EPLB": "eplb", "METRO": "metro"}
PHASES = {"decoding": range(7), "between": range(7, 11), "prompts": range(11, 14)}
"""Exponents of the tokens per rank: 1 to 64, 128 to 1,024, 2,048 to 8,192."""
FEW = 32
"""Up to so many ranks each has eight experts or more."""


def by_rules(loads: Any, ranks: int, gpu: str) -> tuple[Instance, dict[str, Solution]]:
    """Return an instance with an eighth more slots, at least one a rank, and what rules decide."""
    more = max(1, EXPERTS // ranks // 8)
    instance = layer(loads, ranks, EXPERTS // ranks + more, gpu=gpu)
    plans = {name: HEURISTICS[rule](instance) for name, rule in RULES.items()}
    return instance, {name: plan for name, plan in plans.items() if plan is not None}


def times(loads: Any, ranks: int, gpu: str = GPU) -> dict[str, int]:
    """Return ns of the slowest rank with the launch, by rule; "best" is the best known."""
    instance, plans = by_rules(loads, ranks, gpu)
    found = {name: objective(instance, plan) for name, plan in plans.items()}
    improved = (objective(instance, best_shares(instance, plan.copies)) for plan in plans.values())
    found["best"] = min(*found.values(), *improved)
    found["bound"] = lower_bound(instance)
    if found["best"] > 1.02 * found["bound"]:
        better = moeopt.solve(instance, "anneal-and-refute", enough_gap=0.02, work_limit=0.5)
        if better.objective is not None:
            found["best"] = min(found["best"], int(better.objective))
    return {name: ns + KERNELS[gpu].launch_ns for name, ns in found.items()}


def draw_map(arguments: argparse.Namespace) -> None:
    """Print and draw which rule is best, and from how many tokens copies pay on which GPU."""
    cells = {
        (skew, ranks, per_rank): times(skewed(per_rank * ranks, skew, 0), ranks)
        for skew in MAP_SKEWS
        for ranks in MAP_RANKS
        for per_rank in MAP_TOKENS
    }
    picture(cells, arguments.out)
    names = " | ".join(f"{name} (largest)" for name in RULES)
    print(f"| ranks | tokens per rank | skew | {names} | best rule | best known over its bound |")
    print("|---|---|---:|" + "---:|" * len(RULES) + "---|---:|")
    for few in (True, False):
        for phase, exponents in PHASES.items():
            for skew in MAP_SKEWS:
                of = [
                    cells[skew, ranks, 2**n]
                    for ranks in MAP_RANKS
                    for n in exponents
                    if (ranks <= FEW) == few
                ]
                said = []
                for name in RULES:
                    over = [one[name] / one["best"] - 1 for one in of]
                    said.append(f"{statistics.median(over):.0%} ({max(over):.0%})")
                first = {name: sum(one[name] <= best_of(one) for one in of) for name in RULES}
                gap = statistics.median(one["best"] / one["bound"] - 1 for one in of)
                wins = ", ".join(f"{name} {n}" for name, n in first.items())
                cells_of = f"{'2 to 32' if few else '64 to 256'} | {phase} | {skew}"
                print(f"| {cells_of} | {' | '.join(said)} | {wins} of {len(of)} | {gap:.1%} |")
    pays_from()


def best_of(one: dict[str, int]) -> int:
    """Return the least of the rules' times."""
    return min(one[name] for name in RULES)


def pays_from() -> None:
    """Print the least tokens per rank from which EPLB's copies pay, by GPU: the assumption."""
    print("\n| kernel | an expert read is as much as | " + " | ".join(map(str, MAP_RANKS)) + " |")
    print("|---|---:|" + "---:|" * len(MAP_RANKS))
    for gpu, kernel in KERNELS.items():
        read = kernel.of(HIDDEN, INTERMEDIATE)
        tokens = read["read_ns"] / (read["token_ns"] + read["pass_ns"])
        said = []
        for ranks in MAP_RANKS:
            each = []
            for skew in MAP_SKEWS:
                found = None
                for per_rank in reversed(MAP_TOKENS):
                    instance, plans = by_rules(skewed(per_rank * ranks, skew, 0), ranks, gpu)
                    if objective(instance, plans["EPLB"]) > objective(instance, plans["no copies"]):
                        break
                    found = per_rank
                each.append("never" if found is None else str(found))
            said.append(", ".join(each))
        print(f"| {gpu} | {tokens:.0f} tokens | {' | '.join(said)} |", flush=True)


def picture(cells: dict[tuple[float, int, int], dict[str, int]], out: Path) -> None:
    """Draw EPLB's copies against none; letters name the best rule where it leads by 1 %."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "replication"
    figure, axes = plt.subplots(1, len(MAP_SKEWS), figsize=(11, 4.4), sharey=True)
    for axis, skew in zip(axes, MAP_SKEWS, strict=True):
        table = np.zeros((len(MAP_TOKENS), len(MAP_RANKS)))
        for column, ranks in enumerate(MAP_RANKS):
            for row, per_rank in enumerate(MAP_TOKENS):
                one = cells[skew, ranks, per_rank]
                table[row, column] = 100 * (one["EPLB"] / one["no copies"] - 1)
                first = [name for name in RULES if one[name] <= 1.01 * best_of(one)]
                gain = f"{100 * (1 - one['best'] / best_of(one)):.0f}"
                said = f"{first[0][0].upper()} {gain}"
                dark = "white" if abs(table[row, column]) > 30 else "black"
                axis.text(column, row, said, ha="center", va="center", size=6, color=dark)
        shown = axis.imshow(
            table, origin="lower", aspect="auto", cmap="RdBu_r", vmin=-50, vmax=50, alpha=0.8
        )
        axis.set_xticks(range(len(MAP_RANKS)), map(str, MAP_RANKS))
        axis.set_yticks(range(len(MAP_TOKENS)), map(str, MAP_TOKENS))
        axis.set(xlabel="ranks", title=f"popularity ~ 1 / rank$^{{{skew}}}$")
    axes[0].set_ylabel("tokens per rank")
    figure.colorbar(shown, ax=axes, label="EPLB's copies against no copies, % of the kernel's time")
    figure.savefig(out, metadata={"Date": None}, bbox_inches="tight")


MOVE_RANKS, MOVE_SLOTS, MOVE_WINDOWS, STEPS = 32, 9, 12, 1000
"""Of `moves`: a window is so many steps."""

LINK_BYTES_PER_S = 50 * 10**9
"""Of a 400 Gbit/s link; experts have a byte per weight."""

Copies = tuple[tuple[int, ...], ...]


def drifting(tokens: int) -> list[Any]:
    """Return the loads of windows between which 16 pairs of experts change their popularity."""
    rng = np.random.default_rng(0)
    order, rows = rng.permutation(EXPERTS), []
    share = 1.0 / np.arange(1, EXPERTS + 1) ** 0.6
    share *= TOP_K / share.sum()
    for window in range(MOVE_WINDOWS):
        for _ in range(16):
            a, b = rng.integers(0, EXPERTS, 2)
            order[a], order[b] = order[b], order[a]
        loads = np.zeros(EXPERTS, dtype=int)
        draws = np.random.default_rng([window, 1])
        loads[order] = draws.binomial(tokens, np.minimum(1, share))
        rows.append(loads)
    return rows


@dataclass(frozen=True)
class Sequence:
    """Windows one after the other."""

    windows: list[Instance]

    def moved(self, before: Copies, after: Copies) -> int:
        """Return how many copies were not there before."""
        return sum(len(set(new) - set(old)) for old, new in zip(before, after, strict=True))

    def ns(self, window: int, copies: Copies) -> int:
        """Return what a window's steps take, with their launches."""
        one = objective(self.windows[window], Solution(instance="layer", copies=copies))
        return STEPS * (one + KERNELS[GPU].launch_ns)

    def decided(self, rule: str, window: int, current: Copies | None) -> Copies:
        """Return what a rule decides on a window."""
        seen = self.windows[window].model_copy(update={"current": current})
        plan = HEURISTICS[rule](seen)
        if plan is None:
            raise RuntimeError(f"{rule} has no answer")
        return plan.copies

    def policy(self, rule: str, every: int, if_it_pays: bool, move_ns: int) -> tuple[int, int]:
        """Return moves and ns from the second window on; each decision knows the window before."""
        copies = self.decided("eplb-without-copies" if "without" in rule else "eplb", 0, None)
        count = total = 0
        for number in range(1, len(self.windows)):
            if number > 1 and (number - 1) % every == 0:
                new = self.decided(rule, number - 1, copies)
                off = self.moved(copies, new)
                gain = self.ns(number - 1, copies) - self.ns(number - 1, new)
                if not if_it_pays or gain > off * move_ns:
                    count, copies = count + off, new
            total += self.ns(number, copies)
        return count, total + count * move_ns

    def hindsight(self, prices: Iterable[int]) -> tuple[int, list[int]]:
        """Return a bound on every sequence of placements, and the best of those tried by price.

        The bound is that of each window alone, whose moves cost nothing. Tried are EPLB's
        placements and those without copies, of each window, of pairs and of all together, and
        what annealing makes of these for its window: the shortest way through windows.
        """
        start = self.decided("eplb", 0, None)
        sums = [range(w, w + 1) for w in range(len(self.windows))]
        sums += [range(w, w + 2) for w in range(len(self.windows) - 1)]
        sums += [range(1, len(self.windows))]
        tried = [start]
        for part in sums:
            windows = tuple(self.windows[w].windows[0] for w in part)
            both = self.windows[0].model_copy(update={"windows": windows})
            tried += [
                plan.copies
                for rule in ("eplb", "eplb-without-copies")
                if (plan := HEURISTICS[rule](both)) is not None
            ]
            better = moeopt.solve(both, "anneal-and-refute", work_limit=0.5, enough_gap=0.005)
            tried += [better.solution.copies] if better.solution is not None else []
        to = np.array([[self.moved(a, b) for b in tried] for a in tried])
        later = range(1, len(self.windows))
        own = np.array([[self.ns(number, copies) for copies in tried] for number in later])
        low = sum(lower_bound(self.windows[number]) + KERNELS[GPU].launch_ns for number in later)
        found = []
        for price in prices:
            best = np.where(np.arange(len(tried)) == 0, 0, np.iinfo(np.int64).max // 4)
            for of_window in own:
                best = (best[:, None] + to * price).min(axis=0) + of_window
            found.append(int(best.min()))
        return STEPS * low, found


def moves(_: argparse.Namespace) -> None:
    """Print what moving costs and gains over windows of a popularity that drifts."""
    weights = 3 * HIDDEN * INTERMEDIATE
    one = weights * 10**9 // LINK_BYTES_PER_S
    prices = {"hidden": 0, "all ranks at once": one // MOVE_RANKS, "one after the other": one}
    policies = [("without copies, never", "eplb-without-copies", MOVE_WINDOWS, False)]
    policies += [("EPLB, never", "eplb", MOVE_WINDOWS, False)]
    policies += [(f"EPLB, every {n} windows", "eplb", n, False) for n in (4, 2)]
    policies += [("EPLB, every window", "eplb", 1, False)]
    policies += [("EPLB, if the last window says it pays", "eplb", 1, True)]
    policies += [("SwiftBalancer, every window", "swift-balancer", 1, False)]
    policies += [("SwiftBalancer, if it pays", "swift-balancer", 1, True)]
    head = "| tokens per rank | policy | moves | "
    print(head + " | ".join(f"{name}: {ns:,} ns" for name, ns in prices.items()) + " |")
    print("|---:|---|---:|" + "---:|" * len(prices))
    for per_rank in (64, 1024):
        rows = drifting(per_rank * MOVE_RANKS)
        windows = [layer(row, MOVE_RANKS, MOVE_SLOTS, split="even") for row in rows]
        timeline = Sequence(windows)
        low, ends = timeline.hindsight(prices.values())
        for name, rule, every, pays in policies:
            found = [timeline.policy(rule, every, pays, ns) for ns in prices.values()]
            counts = ", ".join(dict.fromkeys(str(count) for count, _ in found))
            above = [f"{ns / best - 1:.1%}" for (_, ns), best in zip(found, ends, strict=True)]
            print(f"| {per_rank} | {name} | {counts} | {' | '.join(above)} |", flush=True)
        gaps = [f"{best / low - 1:.1%}" for best in ends]
        print(f"| {per_rank} | best sequence found, over the bound | | {' | '.join(gaps)} |")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fit", "map", "moves"])
    parser.add_argument("--data", type=Path, help="folder with the measurements")
    parser.add_argument("--out", type=Path, default=Path("replication_kernel.svg"))
    arguments = parser.parse_args()
    if arguments.what == "fit" and arguments.data is None:
        parser.error("fit: needs --data DIR")
    {"fit": fit, "map": draw_map, "moves": moves}[arguments.what](arguments)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
