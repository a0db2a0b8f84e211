"""Measure how hard every instance is for two reference methods; the types of the tables rest on it.

    python instances/reference.py [PROBLEM ...]

Each proven instance is given to ``cp-sat``, with one worker, seed 0 and 4 s of wall time, and where
that proves nothing within 1 CPU second to the method of its entry, with one worker and 120 s. CPU
seconds (building and solving, without compiling kernels) go into ``<problem>/reference.json``, null
where nothing was proven. What is recorded already is not measured again: remove the file for that.
"""

import json
import sys
from pathlib import Path
from time import process_time
from typing import Any

import moeopt
from benchmarks.rooms.problems import PROBLEMS

LIBRARY = Path(__file__).parent
EASY_CPU_S = 1.0
LIMIT_S = {"cp-sat": 4.0, "own": 120.0}


def measured(instance: Any, method: str, limit_s: float, objective: Any) -> float | None:
    """Return the CPU seconds of a proof, None if there is none within the limit."""
    begin = process_time()
    result = moeopt.solve(instance, method, time_limit_s=limit_s, workers=1, seed=0)
    used = process_time() - begin - (result.compile_s or 0)
    if result.status != "optimal":
        return None
    if json.loads(json.dumps(result.objective)) != objective:
        sys.exit(f"{instance.name}: {method} proves {result.objective}, recorded is {objective}")
    return round(max(used, 0.0), 3)


def main(problems: list[str]) -> None:
    """Measure what is missing; the file is written after each instance."""
    for problem in problems or PROBLEMS:
        folder = LIBRARY / problem
        best = json.loads((folder / "best_known.json").read_text())
        file = folder / "reference.json"
        kept = json.loads(file.read_text()) if file.is_file() else {}
        for key, entry in best.items():
            if entry["status"] != "optimal" or key in kept:
                continue
            instance = moeopt.load(folder / key)
            seconds = measured(instance, "cp-sat", LIMIT_S["cp-sat"], entry["objective"])
            times = {"cp-sat": seconds}
            if seconds is None or seconds > EASY_CPU_S:
                method = entry["method"]
                times[method] = measured(instance, method, LIMIT_S["own"], entry["objective"])
            kept[key] = times
            moeopt.save({k: kept[k] for k in best if k in kept}, file)
            print(key, times, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
