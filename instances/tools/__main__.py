"""``python -m instances.tools COMMAND``: what is done to the library's files in a checkout."""

import sys

from instances.tools import rekey

COMMANDS = {"rekey": rekey.main}


def main() -> int:
    """Run a command."""
    name, *rest = sys.argv[1:] or [""]
    if name not in COMMANDS:
        print(f"python -m instances.tools {{{','.join(COMMANDS)}}} ...", file=sys.stderr)
        return 2
    return COMMANDS[name](rest)


if __name__ == "__main__":
    sys.exit(main())
