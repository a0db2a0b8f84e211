"""A child process that waits as long as it is told, for tests of limits."""

from time import sleep
from typing import Any

from tests.rooms.solvers import serve_pipes


def wait(asked: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Wait, and return how many bytes came."""
    sleep(asked["seconds"])
    return {"bytes": len(payload)}


if __name__ == "__main__":
    serve_pipes(wait)
