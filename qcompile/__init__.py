"""qcompile: a compiler for large workloads of statistical queries under differential privacy.

Importing this package is cheap; each public name loads what it needs when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from qcompile.version import __version__ as __version__

if TYPE_CHECKING:
    from qcompile.api import Plan as Plan
    from qcompile.api import PreparedRun as PreparedRun
    from qcompile.api import Release as Release
    from qcompile.api import compile as compile
    from qcompile.api import load_plan as load_plan
    from qcompile.api import load_release as load_release
    from qcompile.api import prepare as prepare
    from qcompile.errors import BudgetError as BudgetError
    from qcompile.errors import DataError as DataError
    from qcompile.errors import NotEstimableError as NotEstimableError
    from qcompile.errors import OptionError as OptionError
    from qcompile.errors import OverspendError as OverspendError
    from qcompile.errors import QCompileError as QCompileError
    from qcompile.errors import SizeError as SizeError
    from qcompile.errors import StorageError as StorageError
    from qcompile.errors import WorkloadError as WorkloadError
    from qcompile.grammar import load as load
    from qcompile.grammar import parse as parse
    from qcompile.privacy.budget import Budget as Budget
    from qcompile.privacy.ledger.charges import Charge as Charge
    from qcompile.privacy.ledger.ledger import Ledger as Ledger
    from qcompile.queries.workload import Workload as Workload
    from qcompile.run.options import RunOptions as RunOptions

_HOMES = {
    "Budget": "qcompile.privacy.budget",
    "BudgetError": "qcompile.errors",
    "Charge": "qcompile.privacy.ledger.charges",
    "DataError": "qcompile.errors",
    "Ledger": "qcompile.privacy.ledger.ledger",
    "NotEstimableError": "qcompile.errors",
    "OptionError": "qcompile.errors",
    "OverspendError": "qcompile.errors",
    "Plan": "qcompile.api",
    "PreparedRun": "qcompile.api",
    "QCompileError": "qcompile.errors",
    "Release": "qcompile.api",
    "RunOptions": "qcompile.run.options",
    "SizeError": "qcompile.errors",
    "StorageError": "qcompile.errors",
    "Workload": "qcompile.queries.workload",
    "WorkloadError": "qcompile.errors",
    "compile": "qcompile.api",
    "load": "qcompile.grammar",
    "load_plan": "qcompile.api",
    "load_release": "qcompile.api",
    "parse": "qcompile.grammar",
    "prepare": "qcompile.api",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'qcompile' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
