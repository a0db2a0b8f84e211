"""``python -m instances.tools COMMAND``: commands on the library's files in a checkout."""

from benchmarks.rooms.cli import main
from instances.tools.commands import run

if __name__ == "__main__":
    main(run=run)
