"""Become another program on one core: `python -m bench.pinned CORE PROGRAM ARGUMENT...`.

The affinity is set before the program exists, so that none of its threads ever ran elsewhere.
"""

import os
import sys


def main() -> None:
    core, *command = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
