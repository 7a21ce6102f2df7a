"""The machine and the software that a result was measured with; nothing that names the machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def describe() -> list[str]:
    """One line for the hardware and one for the software."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    hardware = f"{processor()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}"
    software = [
        f"qcompile {version('qcompile')}",
        f"Python {platform.python_version()}",
        f"NumPy {version('numpy')} with {blas()}",
        f"SciPy {version('scipy')}",
    ]
    return [f"Machine: {hardware}.", f"Software: {', '.join(software)}."]


def processor() -> str:
    """The processor's model where the system tells it, else its architecture."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def blas() -> str:
    """The library of linear algebra inside NumPy, and its number of threads where the environment sets it."""
    import numpy as np

    configuration: dict[str, dict[str, dict[str, str]]] = np.show_config(mode="dicts")  # type: ignore[assignment]
    found = configuration["Build Dependencies"]["blas"]
    threads = next((os.environ[name] for name in THREADS if name in os.environ), "all")
    return f"{found['name']} {found['version']} (threads: {threads})"
