"""The public traces of the evidence: fetched by git at fixed commits, converted, and compared.

What is compared is the SHA-256 of the routing (`topk_ids`), not of the file: compression differs
between versions of zlib.
"""

import hashlib
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import moeopt
from benchmarks.rooms.sim import Trace
from benchmarks.traces.formats import read_published


@dataclass(frozen=True)
class Origin:
    """A repository with traces, at a commit, and what its traces must hold.

    Attributes
    ----------
    file
        Path of a trace in the repository, with ``{}`` for its name.
    sha256
        Trace -> SHA-256 of shape and expert numbers.
    """

    url: str
    commit: str
    folder: str
    file: str
    format: str
    top_k: int | None
    sha256: dict[str, str]


ORIGINS = (
    Origin(
        url="https://github.com/deepseek-ai/ESFT",
        commit="579a7711e4b332b4c57b47e378a0cf240d85caa6",
        folder="esft_deepseek_v2_lite",
        file="results/expert_scores/{}",
        format="esft-txt",
        top_k=6,
        sha256={
            "intent": "1e6d23ea1e224f5b20ac738cb127bce9a56a58cc45a720f3e9846a80d5c55b06",
            "law": "82208bb8d0f02ca2f898025dd0ffba0a6c342d734ecfed06e2adc24d4311f11b",
            "summary": "1df1363bf3bb17359469f463f6700cdd79eb3f960e831fb1585cba1059f07af6",
        },
    ),
    Origin(
        url="https://github.com/angerybob/HD-MoE",
        commit="66b84d75f9504374fbf4826ddf1dba9db4def5ef",
        folder="hdmoe_mixtral_8x7b",
        file="expert_trace/mixtral/experts_{}_mixtral.json",
        format="hdmoe-json",
        top_k=None,
        sha256={
            "coding": "34f1cedbe73bd9fdf9178959e8279ae46b7d17e67e4d31a626fca4d6ea695c88",
            "extraction": "54d87c2e13a13a8daf1fce262921664e528f6a98ddd03aff0abab8acbed3aca3",
            "humanities": "bde6b69d893dc9a13a4b05fd4b4bf6b4f818d199f8d641cd274ca0b9da155523",
            "roleplay": "a59bad8e7938cdd3dbcd93cbc1216bc027fa85233171b8e420b5535ef7c7815e",
            "stem": "8857a12aae51c14fe5a1f6397b1721900875844a00539b4e0098d7b0d499a653",
            "writing": "0fdd0f040f4eecbdf8dc699150552c82b1411851b1764c9a693358dcfbd1f532",
        },
    ),
)
"""ESFT: MIT, expert scores of DeepSeek-V2-Lite; HD-MoE: MIT, Mixtral-8x7B on MT-bench."""


def digest(trace: Trace) -> str:
    """Return the SHA-256 of a trace's shape and expert numbers."""
    ids = trace.topk_ids.astype("<i4")
    return hashlib.sha256(repr(ids.shape).encode() + ids.tobytes()).hexdigest()


def fetch(folder: Path, clones: Path | None = None) -> None:
    """Write all traces below a folder, and stop at the first that is not the one of the evidence.

    Parameters
    ----------
    clones
        A folder with clones of the repositories by their last name, where there is no network.
    """
    with TemporaryDirectory() as scratch:
        for origin in ORIGINS:
            target = Path(scratch) / origin.folder
            clone = None if clones is None else clones / Path(origin.url).name
            _check_out(origin, target, clone)
            (folder / origin.folder).mkdir(parents=True, exist_ok=True)
            for name, known in origin.sha256.items():
                place = target / origin.file.format(name)
                trace = read_published(place, origin.format, origin.top_k)
                if digest(trace) != known:
                    sys.exit(f"{origin.url}: {name}: has other routing than the evidence")
                file = folder / origin.folder / f"{name}.npz"
                moeopt.save_trace(trace, file)
                print(f"{file}: {trace.tokens} tokens, as stated")


def _check_out(origin: Origin, target: Path, clone: Path | None) -> None:
    """Write the folder of an origin's traces at its commit, from its server or from a clone."""
    part = origin.file.partition("{}")[0].rpartition("/")[0]
    if clone is not None:
        archive = target.with_suffix(".tar")
        _git("-C", str(clone), "archive", "-o", str(archive), origin.commit, part)
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
        return
    _git("init", "-q", str(target))
    _git("-C", str(target), "remote", "add", "origin", origin.url)
    _git("-C", str(target), "sparse-checkout", "set", part)
    only = "--filter=blob:none", "--depth", "1"  # nothing but the files that are checked out
    _git("-C", str(target), "fetch", "-q", *only, "origin", origin.commit)
    _git("-C", str(target), "checkout", "-q", "FETCH_HEAD")


def _git(*words: str) -> None:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["failed"]
        sys.exit(f"git {' '.join(words)}: {said[-1]}")
