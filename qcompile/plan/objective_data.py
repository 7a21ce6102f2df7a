"""The solved weights of an objective as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from qcompile.plan.encoding import ArrayStore
from qcompile.plan.objective import Solved
from qcompile.queries.weighting import FamilyWeights, ProductWeights, Weighting
from qcompile.queries.workload import Family, Product, Workload
from qcompile.support.arrays import Array
from qcompile.support.json_fields import Field


def objective_data(solved: Solved, store: ArrayStore) -> dict[str, Any]:
    """Weights and bound; arrays go to the store."""
    families = {name: _family_data(w, store) for name, w in solved.weighting.families.items()}
    return {"bound": solved.bound, "weights": families}


def _family_data(weights: FamilyWeights, store: ArrayStore) -> dict[str, Any]:
    classes = [
        {"weight": c.weight, "queries": [None if q is None else store.put(q) for q in c.queries]}
        for c in weights.classes
    ]
    return {"classes": classes, "class_of": store.put(weights.class_of)}


def read_objective(data: Field, workload: Workload, store: ArrayStore) -> Solved:
    """The inverse of `objective_data`.

    Raises:
      StorageError: it is something else, or does not fit the workload.
    """
    field = data.read_object("bound", "weights")
    members = field["weights"].read_object(*(f.name for f in workload.families))
    weights = {f.name: _read_family(members[f.name], f, store) for f in workload.families}
    return Solved(Weighting(weights), float(field["bound"].read_number(least=0)))


def _read_family(data: Field, family: Family, store: ArrayStore) -> FamilyWeights:
    field = data.read_object("classes", "class_of")
    class_of = store.read(field["class_of"])
    if class_of.dtype != np.int64 or class_of.shape != (family.views,):
        field["class_of"].refuse("a whole number per product")
    classes = tuple(_read_class(c, store) for c in field["classes"].read_list())
    weights = data.build(lambda: FamilyWeights(classes, class_of))
    for product, c in zip(family.products(), class_of.tolist(), strict=True):
        if not _fits(product, classes[c]):
            data.refuse("a weight per query")
    return weights


def _fits(product: Product, weights: ProductWeights) -> bool:
    """True if there is a weight per query of each factor, or per query of the product."""
    shape = product.shape if len(weights.queries) == len(product.shape) else (product.count,)
    if len(weights.queries) != len(shape):
        return False
    return all(q is None or q.shape == (n,) for q, n in zip(weights.queries, shape, strict=True))


def _read_class(data: Field, store: ArrayStore) -> ProductWeights:
    field = data.read_object("weight", "queries")
    queries: list[Array | None] = [q.read_optional(store.read_finite) for q in field["queries"].read_list()]
    weight = float(field["weight"].read_number(above=0))
    return data.build(lambda: ProductWeights(weight, tuple(queries)))
