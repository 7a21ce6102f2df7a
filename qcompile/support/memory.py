"""The memory that work may take: one budget, in force for everything that is called inside of it.

A budget counts what the process has come to hold since it began, so that several arrays that live at the same time
share it. Without a budget the limit is a share of what the machine has free at the moment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from qcompile.errors import SizeError

SHARE_OF_FREE = 0.8
"""Share of the free memory that work may take: the rest is for the system, and for other programs."""

UNKNOWN = 8 * 2**30
"""Bytes that are taken to be free where the system does not tell."""

PROC = Path("/proc")

CGROUPS = Path("/sys/fs/cgroup")

SMALL = 2**24
"""Bytes that are never refused under a budget: 16 MB. The program itself takes ten times as much."""


@dataclass(frozen=True)
class MemoryBudget:
    """A limit in force.

    Attributes:
      limit: bytes.
      held: bytes that the process held when it began; None where each array is measured by the limit alone.
    """

    limit: int
    held: int | None

    @property
    def used(self) -> int:
        """Bytes that the process has come to hold since."""
        return 0 if self.held is None else max(0, resident_memory() - self.held)


_budget: ContextVar[MemoryBudget | None] = ContextVar("memory budget", default=None)


@contextmanager
def memory_budget(limit: int | None = None) -> Iterator[None]:
    """Hold all work inside to a number of bytes; `default_limit` where None, or the budget that is in force already.

    Raises:
      SizeError: the work ran out of memory all the same.
    """
    if limit is None and _budget.get() is not None:
        yield
        return
    token = _budget.set(MemoryBudget(default_limit() if limit is None else limit, resident_memory()))
    try:
        yield
    except SizeError:
        raise
    except MemoryError:
        raise SizeError(EXHAUSTED) from None
    finally:
        _budget.reset(token)


@contextmanager
def constant_limit(limit: int) -> Iterator[None]:
    """Refuse single arrays of more bytes, whatever the process holds: so a refusal says nothing of the data read."""
    token = _budget.set(MemoryBudget(limit, None))
    try:
        yield
    finally:
        _budget.reset(token)


EXHAUSTED = (
    "there is not enough memory for this, though less was expected; use fewer or coarser cells, give fewer workers, "
    "or free memory (a lower limit, --max-memory or max_memory, refuses it before it starts)"
)


def memory_limit() -> int:
    """Return the limit in force, in bytes."""
    budget = _budget.get()
    return default_limit() if budget is None else budget.limit


def used_memory() -> int:
    """Return the bytes that the process holds since the budget in force began; 0 without one."""
    budget = _budget.get()
    return 0 if budget is None else budget.used


def has_room(need: int) -> bool:
    """True if ``need`` bytes fit beside all that is held already."""
    return need <= SMALL or need <= memory_limit() - used_memory()


def default_limit() -> int:
    """Return the bytes that work may take where nobody has set a limit."""
    return int(SHARE_OF_FREE * free_memory())


def free_memory() -> int:
    """Return the bytes free for this process: of the machine, its control groups and its own limits."""
    known = [free for free in (_free_of_machine(), *_free_of_groups(), *_free_of_limits()) if free is not None]
    return max(0, min(known, default=UNKNOWN))


def resident_memory() -> int:
    """Return the bytes of memory that the process holds; 0 where the system does not tell."""
    pages = _read(PROC / "self" / "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0


def _free_of_machine() -> int | None:
    """`MemAvailable` of Linux, else the whole of the memory, else None."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _read(PROC / "meminfo"), re.MULTILINE)
    if match:
        return int(match[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # no such name, or no such function
        return None


def _free_of_groups() -> list[int]:
    """What the control groups of the process leave: each limits all below it; in both versions."""
    free = []
    for line in _read(PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            free += _free_above(CGROUPS, path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            free += _free_above(CGROUPS / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes")
    return free


def _free_above(root: Path, path: str, limit: str, usage: str) -> list[int]:
    """What a group and all groups above it leave; inside of a container the path may be seen from outside."""
    folder = root / path.lstrip("/")
    folders = [folder, *folder.parents]
    folders = folders[: folders.index(root) + 1]
    values = [(_read(f / limit).strip(), _read(f / usage).strip()) for f in folders]
    return [int(most) - int(now) for most, now in values if most.isdigit() and now.isdigit()]


def _free_of_limits() -> list[int]:
    """What `ulimit -v` and `ulimit -d` leave of the address space."""
    try:
        import resource
    except ImportError:  # not a Unix
        return []
    sizes = _read(PROC / "self" / "statm").split()
    page = os.sysconf("SC_PAGE_SIZE")
    used = {resource.RLIMIT_AS: 0, resource.RLIMIT_DATA: 5}  # positions in statm: whole size, and data with stack
    free = []
    for kind, position in used.items():
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            free.append(soft - (int(sizes[position]) * page if len(sizes) > position else 0))
    return free


def _read(path: Path) -> str:
    """The text of a file of the system; empty where there is none."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
