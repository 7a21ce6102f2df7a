"""Schema, workload and strategies as plain data with arrays beside it: what plan files hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.errors import StorageError
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.factors.ordered import Ordered
from qcompile.queries.factors.threshold import Threshold
from qcompile.queries.schema import Attribute, CategoryDomain, Domain, IntegerDomain, NumericDomain, Policy, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.strategy import (
    FourierStrategy,
    KroneckerStrategy,
    MatrixPart,
    MixtureStrategy,
    Part,
    ResidualPart,
    Strategy,
)
from qcompile.support.arrays import Array, cells, digest

SYMMETRIC = 1e-12
"""Relative asymmetry of a circulant's kernel that rounding may leave."""


class ArrayStore:
    """Arrays by content: equal arrays are stored once."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = dict(arrays or {})

    @staticmethod
    def check(arrays: Mapping[str, npt.NDArray[Any]]) -> ArrayStore:
        """The arrays of a file.

        Raises:
          StorageError: one is not called by its contents, so that a hash of the names would not tell.
        """
        for name, array in arrays.items():
            if name != _name(array):
                raise StorageError(f"an array of the file is not what it is called ({name}); make the file again")
        return ArrayStore(arrays)

    def put(self, array: npt.NDArray[Any]) -> str:
        """Store an array; returns its name."""
        name = _name(array)
        self.arrays[name] = array
        return name

    def get(self, name: str) -> npt.NDArray[Any]:
        """The array of a name.

        Raises:
          StorageError: there is none.
        """
        try:
            return self.arrays[name]
        except KeyError:
            raise StorageError(f"the file refers to an array that it does not hold ({name})") from None


def _name(array: npt.NDArray[Any]) -> str:
    return "arrays/" + digest(array)[:32]


def schema_data(schema: Schema) -> list[dict[str, Any]]:
    """The attributes of a schema as plain data; its mark `read_from_data` is the workload's to store."""
    return [
        {
            "name": a.name,
            "domain": _domain_data(a.domain),
            "policy": a.policy.kind,
            "other": a.policy.other,
            "cyclic": a.cyclic,
        }
        for a in schema
    ]


def _domain_data(domain: Domain) -> dict[str, Any]:
    if isinstance(domain, IntegerDomain):
        return {"integer": [domain.low, domain.high]}
    if isinstance(domain, NumericDomain):
        return {"numeric": list(domain.edges), "closed": domain.closed}
    return {"category": list(domain.labels)}


def read_schema(data: list[dict[str, Any]], read_from_data: object = False) -> Schema:
    """The inverse of `schema_data`.

    Args:
      data: the attributes.
      read_from_data: the mark of a schema that was drafted from data; files from before there was one lack it.
    """
    if not isinstance(read_from_data, bool):
        raise ValueError("the mark read_from_data must be true or false")
    attributes = (
        Attribute(a["name"], _read_domain(a["domain"]), Policy(a["policy"], a["other"]), a["cyclic"]) for a in data
    )
    return Schema(tuple(attributes), read_from_data)


def _read_domain(data: dict[str, Any]) -> Domain:
    if "integer" in data:
        return IntegerDomain(*data["integer"])
    if "numeric" in data:
        return NumericDomain(tuple(map(float, data["numeric"])), data["closed"])
    return CategoryDomain(tuple(data["category"]))


def factor_data(factor: Factor, store: ArrayStore) -> dict[str, Any]:
    """A factor as plain data; query matrices go to the store."""
    data: dict[str, Any] = {"kind": factor.kind, "attributes": list(factor.names)}
    if isinstance(factor, Threshold):
        thresholds = None if factor.thresholds is None else list(factor.thresholds)
        data |= {"coefficients": list(factor.coefficients), "thresholds": thresholds}
        data |= {"constant": factor.constant, "at_least": factor.at_least}
    elif isinstance(factor, Ordered) and factor.leaves_other:
        data |= {"through_other": False}
    elif isinstance(factor, Random):
        data |= {"p": factor.p, "count": factor.count, "seed": factor.seed}
    elif isinstance(factor, Matrix):
        data |= {"matrix": store.put(factor.contract([None] * len(factor.shape))), "path": factor.path}
    elif isinstance(factor, Predicate):
        data |= {"holds": store.put(factor.contract([None] * len(factor.shape))[0] != 0), "text": factor.text}
    return data


ORDERED: dict[str, type[Ordered]] = {kind.kind: kind for kind in (Prefix, Range, Circular)}


def read_factor(data: dict[str, Any], schema: Schema, store: ArrayStore) -> Factor:
    """The inverse of `factor_data`."""
    attributes = [schema[name] for name in data["attributes"]]
    kind = data["kind"]
    if kind == Marginal.kind:
        return Marginal(*attributes)
    if kind in ORDERED:
        return ORDERED[kind](*attributes, through_other=_through_other(data))
    if kind in (Affine.kind, Abs.kind):
        threshold = Affine if kind == Affine.kind else Abs
        options = {"constant": data["constant"], "at_least": data["at_least"]}
        return threshold(attributes, data["coefficients"], data["thresholds"], **options)
    if kind == Random.kind:
        return Random(attributes, data["p"], data["count"], data["seed"])
    if kind == Matrix.kind:
        return Matrix(attributes, store.get(data["matrix"]), data["path"])
    if kind == Predicate.kind:
        return Predicate(attributes, store.get(data["holds"]), data["text"])
    raise StorageError(f"unknown kind of factor {kind!r} in the file")


def _through_other(data: dict[str, Any]) -> bool:
    """Whether an ordered factor runs through an ``other`` cell; files from before it stood outside do not say."""
    through = data.get("through_other", True)
    if not isinstance(through, bool):
        raise ValueError("the mark through_other must be true or false")
    return through


def workload_data(workload: Workload, store: ArrayStore) -> dict[str, Any]:
    """A workload as plain data."""
    families = [
        {
            "name": f.name,
            "text": f.text,
            "weight": f.weight,
            "choose": f.choose,
            "aliases": list(f.aliases),
            "factors": [factor_data(x, store) for x in f.factors],
        }
        for f in workload.families
    ]
    # Only where it holds: the hashes of all other plans stay what they were.
    mark = {"read_from_data": True} if workload.schema.read_from_data else {}
    return {"schema": schema_data(workload.schema), **mark, "families": families}


def read_workload(data: dict[str, Any], store: ArrayStore) -> Workload:
    """The inverse of `workload_data`."""
    schema = read_schema(data["schema"], data.get("read_from_data", False))
    families = [
        Family(
            f["name"],
            f["text"],
            tuple(read_factor(x, schema, store) for x in f["factors"]),
            f["weight"],
            None if f["choose"] is None else (int(f["choose"][0]), int(f["choose"][1])),
            tuple(f["aliases"]),
        )
        for f in data["families"]
    ]
    return Workload(schema, tuple(families))


def strategy_data(strategy: Strategy, store: ArrayStore) -> dict[str, Any]:
    """A strategy as plain data; its matrices go to the store."""
    if isinstance(strategy, FourierStrategy):
        return {"kind": "fourier", "kernel": store.put(strategy.kernel)}
    if isinstance(strategy, KroneckerStrategy):
        parts = [_part_data(p, store) for p in strategy.parts]
        return {"kind": "kronecker", "shape": list(strategy.shape), "parts": parts}
    if isinstance(strategy, MixtureStrategy):
        return {"kind": "mixture", "terms": [strategy_data(t, store) for t in strategy.terms]}
    raise StorageError(f"{type(strategy).__name__} cannot be stored")


def _part_data(part: Part, store: ArrayStore) -> dict[str, Any]:
    axes = list(part.axes)
    if isinstance(part, ResidualPart):
        return {"axes": axes, "residual": part.factor}
    return {"axes": axes, "matrix": store.put(part.written_out())}


def read_strategy(data: dict[str, Any], store: ArrayStore) -> Strategy:
    """The inverse of `strategy_data`."""
    if data["kind"] == "mixture":
        return MixtureStrategy([_read_plain(t, store) for t in data["terms"]])
    return _read_plain(data, store)


def _read_plain(data: dict[str, Any], store: ArrayStore) -> KroneckerStrategy | FourierStrategy:
    if data["kind"] == "fourier":
        return _read_fourier(_finite(store, data["kernel"]))
    if data["kind"] == "kronecker":
        return _read_kronecker(data, store)
    raise StorageError(f"unknown kind of strategy {data['kind']!r} in the file")


def _read_fourier(kernel: Array) -> FourierStrategy:
    """A circulant whose kernel is its own mirror image: else B is not symmetric, which all its arithmetic rests on."""
    mirrored = kernel
    for axis in range(kernel.ndim):
        mirrored = np.roll(np.flip(mirrored, axis), 1, axis)
    if np.abs(kernel - mirrored).max(initial=0.0) > SYMMETRIC * np.abs(kernel).max(initial=0.0):
        raise ValueError("the kernel of a circulant strategy is symmetric")
    return FourierStrategy(kernel)


def _read_kronecker(data: dict[str, Any], store: ArrayStore) -> KroneckerStrategy:
    shape = tuple(data["shape"])
    parts = [_read_part(p, shape, store) for p in data["parts"]]
    if sorted(a for p in parts for a in p.axes) != list(range(len(shape))):
        raise ValueError("the parts of a Kronecker strategy must cover every axis once")
    return KroneckerStrategy(shape, parts)


def _read_part(data: dict[str, Any], shape: tuple[int, ...], store: ArrayStore) -> Part:
    axes = tuple(data["axes"])
    sizes = tuple(shape[a] for a in axes)
    if "residual" in data:
        return ResidualPart(axes, sizes, data["residual"])
    matrix = _finite(store, data["matrix"])
    if matrix.ndim != 2 or matrix.shape[1] != cells(sizes):
        raise ValueError("a matrix of a Kronecker strategy must have a column per cell of its axes")
    return MatrixPart(axes, sizes, matrix)


def _finite(store: ArrayStore, name: str) -> Array:
    array = np.asarray(store.get(name), dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("the matrices of a strategy must be finite")
    return array
