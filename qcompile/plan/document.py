"""A plan as plain data, made once for its hash and for every file that holds it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from qcompile.plan.encoding import ArrayStore
from qcompile.plan.files import plan_data
from qcompile.plan.plan import Plan


@dataclass(frozen=True, eq=False, repr=False)
class PlanDocument:
    """A plan as it stands in files.

    Attributes:
      data: JSON values; arrays are named by their contents.
      arrays: by name.
    """

    data: Mapping[str, Any]
    arrays: Mapping[str, Any]

    @staticmethod
    def of(plan: Plan) -> PlanDocument:
        """Serialise a plan."""
        store = ArrayStore()
        return PlanDocument(plan_data(plan, store), store.arrays)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the contents, the same for equal plans."""
        return content_hash(self.data)


def content_hash(data: object) -> str:
    """SHA-256 of JSON values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
