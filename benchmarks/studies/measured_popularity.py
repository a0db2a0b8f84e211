"""Shares of calls that experts on the GPU get, by how they were chosen, from real routing.

    python benchmarks/studies/measured_popularity.py FOLDER [--write]

FOLDER holds ESFT's traces of DeepSeek-V2-Lite (``intent.npz``, ``law.npz``, ``summary.npz``). The
strategies of ktransformers that need popularity are compared with its public measurements in
``python -m benchmarks.measured``; those say nothing about it, so it comes from another model. Every
other sequence is the profile. Of the rest the first half of each sequence stands for its prompt,
and the shares are those of the second halves:

- frequency: the most called experts of the profile, over all layers together;
- dynamic-expert-update: of each layer the same number of experts, the most called ones of the
  sequence's own first half; of equals those called more in the profile.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.core import write_bytes
from benchmarks.rooms.sim import read_trace
from moeopt import dedupe_trace

Ints = NDArray[np.int64]

FILES = ("intent.npz", "law.npz", "summary.npz")
PERCENT = tuple(range(0, 101, 10))
EXPERTS = 64
PLACE = Path(__file__).parents[2] / "benchmarks" / "measured" / "popularity.json"
SOURCE = (
    "routing of DeepSeek-V2-Lite (26 layers, 64 experts, 6 per token) in"
    " github.com/deepseek-ai/ESFT @ 579a7711, results/expert_scores: intent, law, summary; MIT."
    " benchmarks/studies/measured_popularity.py"
)


def shares(sequences: list[Ints]) -> dict[str, list[float]]:
    """Return strategy -> share of calls that experts on the GPU get, one per entry of `PERCENT`.

    Parameters
    ----------
    sequences
        (tokens, layers, top_k) each: expert ids.
    """
    profile = sum(_counts(one) for one in sequences[::2])
    popular = np.argsort(-np.asarray(profile).ravel(), kind="stable")
    hits = {name: np.zeros(len(PERCENT)) for name in ("frequency", "dynamic-expert-update")}
    calls = 0
    for sequence in sequences[1::2]:
        half = len(sequence) // 2
        own = _counts(sequence[:half]) + profile / (1 + np.max(profile))
        ranked = np.argsort(-own, axis=1, kind="stable")
        later = _counts(sequence[half:])
        calls += later.sum()
        for at, percent in enumerate(PERCENT):
            globally = popular[: round(percent / 100 * later.size)]
            hits["frequency"][at] += later.ravel()[globally].sum()
            of_layer = ranked[:, : round(percent / 100 * EXPERTS)]
            hits["dynamic-expert-update"][at] += np.take_along_axis(later, of_layer, 1).sum()
    return {name: [round(float(x), 4) for x in found / calls] for name, found in hits.items()}


def read_sequences(folder: Path) -> list[Ints]:
    """Return the sequences of all traces, (tokens, layers, top_k) each."""
    sequences: list[Ints] = []
    for name in FILES:
        trace = dedupe_trace(read_trace(folder / name))
        ends = np.cumsum(trace.seq_len)[:-1]
        sequences += np.split(trace.topk_ids.astype(np.int64), ends)
    return sequences


def _counts(sequence: Ints) -> Ints:
    """Return how often each expert is called, (layers, experts)."""
    layers = sequence.shape[1]
    numbers = sequence + EXPERTS * np.arange(layers)[None, :, None]
    return np.bincount(numbers.ravel(), minlength=layers * EXPERTS).reshape(layers, EXPERTS)


def main() -> None:
    """Print the shares; write them where asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help=f"write {PLACE.name}")
    arguments = parser.parse_args()
    found = {
        "source": SOURCE,
        "experts_on_gpu_percent": PERCENT,
        "share": shares(read_sequences(arguments.folder)),
    }
    text = json.dumps(found, indent=1) + "\n"
    print(text, end="")
    if arguments.write:
        write_bytes(text.encode(), PLACE)


if __name__ == "__main__":
    main()
