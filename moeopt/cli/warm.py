"""``moeopt warm``: compile every kernel beforehand."""

import sys
from typing import Annotated

import typer


def warm_command(
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; default: one per processor.")
    ] = None,
) -> int:
    """Compile the kernels of all problems now, so that no solve waits for one: servers, CI.

    They are kept in the user's cache folder, or in $MOEOPT_CACHE_DIR; done once, it ends at once.
    """
    from moeopt.solvers.warm import warm

    def tell(problem: str, compiled: int, done: int, total: int) -> None:
        print(f"moeopt: {done}/{total} {problem}: {compiled} compiled", file=sys.stderr)

    found = warm(jobs, on_progress=tell)
    print(f"{found.compiled} kernels compiled in {found.seconds:.1f} s, kept in {found.folder}")
    return 0
