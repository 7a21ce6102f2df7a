"""The peak memory of this process."""

from __future__ import annotations

import pathlib
import re
import resource
import sys


def peak() -> int:
    """Bytes that this process has held at most.

    Linux counts what the parent held at the fork into ``ru_maxrss``: one would measure what came before.
    """
    status = pathlib.Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
