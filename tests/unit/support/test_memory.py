from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qcompile.errors import SizeError
from qcompile.support import memory, threads
from qcompile.support.arrays import require_memory

GB = 10**9


def system(tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A system whose files are these."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr("resource.getrlimit", lambda kind: (-1, -1))


MEMINFO = "MemTotal:  9000000 kB\nMemFree:  1 kB\nMemAvailable:  4000000 kB\n"

GROUPS = {"cgroup/a/b/memory.max": "max\n", "cgroup/a/b/memory.current": "5\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"proc/meminfo": MEMINFO}, 4_096_000_000),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/a/b\n",
                **GROUPS,
                "cgroup/a/memory.max": "1000000\n",
                "cgroup/a/memory.current": "400000\n",
            },
            600_000,
        ),
        ({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/elsewhere\n", **GROUPS}, 4_096_000_000),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "5:cpu,memory:/docker/1\n4:cpuset:/docker/1\n",
                "cgroup/memory/memory.limit_in_bytes": "2000\n",
                "cgroup/memory/memory.usage_in_bytes": "500\n",
            },
            1500,
        ),
    ],
    ids=["machine", "a group above", "no limit", "version 1"],
)
def test_free_memory_is_the_least_of_machine_and_groups(
    files: dict[str, str], free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system(tmp_path, files, monkeypatch)
    assert memory.free_memory() == free


def test_free_memory_without_the_files_of_linux_is_what_the_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system(tmp_path, {}, monkeypatch)
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    assert memory.free_memory() == 4_096_000
    assert memory.resident_memory() == 0
    monkeypatch.delattr("os.sysconf")
    monkeypatch.setitem(__import__("sys").modules, "resource", None)
    assert memory.free_memory() == memory.UNKNOWN


def test_free_memory_is_what_the_limits_of_the_process_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/statm": "1000 500 1 1 0 300 0\n"}, monkeypatch)
    monkeypatch.setattr("os.sysconf", lambda name: 4096)
    monkeypatch.setattr("resource.getrlimit", lambda kind: (10_000_000, -1))
    assert memory.free_memory() == 10_000_000 - 4_096_000
    monkeypatch.setattr("resource.getrlimit", lambda kind: (1000, -1))
    assert memory.free_memory() == 0


def test_a_budget_counts_all_that_is_held_since_it_began() -> None:
    with memory.memory_budget(GB):
        require_memory("first", 75_000_000, "stop")
        held = np.ones(75_000_000)
        with pytest.raises(SizeError, match=r"second needs 600.0 MB of memory, the limit is 1.0 GB, of which 6.* stop"):
            require_memory("second", len(held), "stop")
        del held
        require_memory("second", 75_000_000, "stop")


def test_the_inner_of_two_budgets_holds_and_none_keeps_the_outer() -> None:
    with memory.memory_budget(GB):
        with memory.memory_budget():
            assert memory.memory_limit() == GB
        with memory.memory_budget(GB // 2):
            assert memory.memory_limit() == GB // 2
        assert memory.memory_limit() == GB
    assert memory.memory_limit() == memory.default_limit()


def test_a_constant_limit_does_not_count_what_is_held() -> None:
    with memory.memory_budget(GB), memory.constant_limit(GB):
        held = np.ones(75_000_000)
        require_memory("second", len(held), "stop")
        with pytest.raises(SizeError, match="limit"):
            require_memory("third", 130_000_000, "stop")
    assert memory.used_memory() == 0


def test_running_out_of_memory_is_a_typed_error_with_the_next_step() -> None:
    with pytest.raises(SizeError, match="fewer or coarser cells"), memory.memory_budget(GB):
        raise MemoryError
    with pytest.raises(SizeError, match="as it is"), memory.memory_budget(GB):
        raise SizeError("as it is")


def test_small_arrays_are_never_refused() -> None:
    with memory.memory_budget(1):
        require_memory("a little", memory.SMALL // 8, "stop")


def test_a_budget_holds_on_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "LEAST_EFFORT", 0)
    jobs: list[Callable[[], int]] = [memory.memory_limit] * 12
    with memory.memory_budget(GB):
        assert list(threads.in_order(jobs, 1, 3)) == [GB] * 12
