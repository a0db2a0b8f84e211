"""Fuzz readers for some time each: ``python -m tests.fuzz.run [READER...] --seconds 600``.

Each reader runs in a process of its own with a limit of memory. What is neither read nor refused
in one line, makes Python or NumPy warn, or takes more than ten CPU seconds or much memory, is kept
as a file and named; the exit code is 1 then.
"""

import argparse
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

from tests.fuzz.hostile import LONGEST_LINE
from tests.fuzz.mutations import mutated
from tests.fuzz.readers import READERS, REFUSALS, Reader

SLOWEST_S = 10


class TooSlowError(BaseException):
    """Not an Exception, so that no reader takes it for a fault of the file."""


def fuzz(name: str, seconds: float, seed: int, out: Path) -> int:
    """Fuzz one reader in this process; return how many kinds of failure there are."""
    reader = READERS[name]
    chance, content = random.Random(seed), reader.seed()
    path = out / name / reader.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    reader.read(path)
    warnings.simplefilter("error")  # Python and NumPy warn on stderr: a second line
    warnings.simplefilter("ignore", UserWarning)
    found: dict[str, str] = {}
    counts = {"read": 0, "refused": 0}
    end = time.process_time() + seconds
    while time.process_time() < end:
        path.write_bytes(spoilt := mutated(content, chance))
        fault = _fault(reader, path, counts)
        if fault and fault not in found:
            kept = out / f"{name}-{len(found)}-{reader.file}"
            kept.write_bytes(spoilt)
            found[fault] = str(kept)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    said = ", ".join(f"{count} {how}" for how, count in counts.items())
    print(f"{name}: {said}, {len(found)} kinds of failure, at most {peak} MiB", flush=True)
    for fault, where in found.items():
        print(f"  {fault}: {where}", flush=True)
    return len(found)


def _fault(reader: Reader, path: Path, counts: dict[str, int]) -> str | None:
    """Read a file; return what is wrong with how it was read or refused."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, SLOWEST_S)
    try:
        reader.read(path)
        counts["read"] += 1
    except REFUSALS as error:
        counts["refused"] += 1
        if len(str(error).splitlines()) != 1 or len(str(error)) > LONGEST_LINE:
            return f"message: {str(error)[:200]!r}"
    except (Exception, TooSlowError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    return f"{grown} MiB" if grown > reader.memory_mib else None


def _too_slow(number: int, frame: object) -> None:
    raise TooSlowError


def main() -> int:
    """Fuzz the named readers, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", choices=[[], *READERS], default=[])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-found"))
    given = parser.parse_args()
    signal.signal(signal.SIGPROF, _too_slow)
    failed = False
    for name in given.readers or READERS:
        child = os.fork()
        if not child:
            code = 2
            try:
                code = min(1, fuzz(name, given.seconds, given.seed, given.out))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if status not in (0, 256):
            print(f"{name}: the process ended with status {status}")
        failed |= status != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
