"""Schema, workload and strategies as plain data with arrays beside it: what plan files hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from qcompile.errors import StorageError
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.factors.ordered import Ordered
from qcompile.queries.factors.threshold import Threshold
from qcompile.queries.schema import (
    Attribute,
    CategoryDomain,
    Domain,
    IntegerDomain,
    Label,
    NumericDomain,
    Policy,
    PolicyKind,
    Schema,
)
from qcompile.queries.workload import Family, Target, Workload
from qcompile.strategy import (
    CosineStrategy,
    FourierStrategy,
    KroneckerStrategy,
    MatrixPart,
    MixtureStrategy,
    Part,
    ResidualPart,
    Strategy,
)
from qcompile.strategy.oblique import ObliqueStrategy
from qcompile.support.arrays import Array, cells, digest, require_memory
from qcompile.support.json_fields import Field

SYMMETRIC = 1e-12
"""Relative asymmetry of a circulant's kernel that rounding may leave."""

POLICIES: tuple[str, ...] = get_args(PolicyKind)

MAX_ATTRIBUTES = 100_000
"""Attributes of a schema in a file: more than a ``.q`` text can declare."""

VALUES_MEMORY = 2**30
"""Bytes that one number per value of every attribute may take: the centring weights."""

MAX_AXES = 64
"""Axes of a strategy, those of a NumPy array."""

MAX_TERMS = 1501
"""Terms of a mixture: one of full rank, and no more of low rank than the solvers' limit of their rows
(`qcompile.solvers.composite.mixture.LOW_RANK`)."""

ROWS_PER_CELL = 2
"""Rows of a matrix per column, at most. No solver makes more rows than cells, but for the low-rank rows of a mixture
(`MORE_ROWS`); a forged plan with many would take memory and time that no estimate tells of."""

MORE_ROWS = 1500
"""Rows beside those, for strategies of few cells and for mixtures."""


COSINE_ARRAYS = ("half", "weights", "directions", "gains")
"""Members of a cosine strategy: its arrays, in the order of its constructor."""


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
            raise StorageError("the file refers to an array that it does not hold; make the file again") from None

    def read(self, data: Field) -> npt.NDArray[Any]:
        """The array that a file names.

        Raises:
          StorageError: the name is no text, or there is no such array.
        """
        return self.get(data.read_text())

    def read_finite(self, data: Field) -> Array:
        """The array of doubles that a file names.

        Raises:
          StorageError: there is none, or an entry is not finite.
        """
        array = self.read(data)
        if array.dtype != np.float64 or not np.isfinite(array).all():
            data.refuse("an array of finite numbers")
        return array


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


def read_schema(data: Field, read_from_data: Field | None = None) -> Schema:
    """The inverse of `schema_data`.

    Args:
      data: the attributes.
      read_from_data: the mark of a schema that was drafted from data; files from before there was one lack it.

    Raises:
      StorageError: it is no schema, or one of more attributes or values than are read.
    """
    attributes = tuple(_read_attribute(a) for a in data.read_list(most=MAX_ATTRIBUTES))
    mark = read_from_data is not None and read_from_data.read_bool()
    schema = data.build(lambda: Schema(attributes, mark))
    values = sum(a.size for a in schema)
    require_memory("the file's schema", values, "declare fewer values, or bins", limit=VALUES_MEMORY)
    return schema


def _read_attribute(data: Field) -> Attribute:
    field = data.read_object("name", "domain", "policy", "other", "cyclic")
    name, domain, cyclic = field["name"].read_text(), _read_domain(field["domain"]), field["cyclic"].read_bool()
    kind, other = field["policy"].read_choice(POLICIES), field["other"].read_optional(Field.read_text)
    return data.build(lambda: Attribute(name, domain, Policy(cast("PolicyKind", kind), other), cyclic))


def _read_domain(data: Field) -> Domain:
    kinds = data.read_mapping()
    if "integer" in kinds:
        low, high = (x.read_integer() for x in data.read_object("integer")["integer"].read_tuple(2))
        return data.build(lambda: IntegerDomain(low, high))
    if "numeric" in kinds:
        field = data.read_object("numeric", "closed")
        edges = tuple(float(x.read_number()) for x in field["numeric"].read_list())
        closed = field["closed"].read_bool()
        return data.build(lambda: NumericDomain(edges, closed))
    labels = tuple(_read_label(x) for x in data.read_object("category")["category"].read_list())
    return data.build(lambda: CategoryDomain(labels))


def _read_label(data: Field) -> Label:
    if isinstance(data.value, str):
        return data.read_text()
    return data.read_bool() if isinstance(data.value, bool) else data.read_integer()


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


def read_factor(data: Field, schema: Schema, store: ArrayStore) -> Factor:
    """The inverse of `factor_data`.

    Raises:
      StorageError: it is no factor on attributes of the schema.
    """
    members = data.read_mapping()
    kind = members["kind"].read_choice(tuple(READERS)) if "kind" in members else data.refuse("a factor with a kind")
    attributes = [_read_name(x, schema) for x in members["attributes"].read_list()] if "attributes" in members else []
    return READERS[kind](data, attributes, store)


def _read_name(data: Field, schema: Schema) -> Attribute:
    name = data.read_text()
    return schema[name] if name in schema else data.refuse("an attribute of the schema")


def _read_marginal(data: Field, attributes: Sequence[Attribute], store: ArrayStore) -> Factor:
    data.read_object("kind", "attributes")
    return Marginal(_only(data, attributes))


def _read_ordered(data: Field, attributes: Sequence[Attribute], store: ArrayStore) -> Factor:
    """An ordered factor; files from before the ``other`` cell stood outside do not say whether it runs through it."""
    field = data.read_object("kind", "attributes", optional=["through_other"])
    through = "through_other" not in field or field["through_other"].read_bool()
    return ORDERED[field["kind"].read_text()](_only(data, attributes), through_other=through)


def _only(data: Field, attributes: Sequence[Attribute]) -> Attribute:
    return attributes[0] if len(attributes) == 1 else data.refuse("a factor on one attribute")


def _read_threshold(data: Field, attributes: Sequence[Attribute], store: ArrayStore) -> Factor:
    field = data.read_object("kind", "attributes", "coefficients", "thresholds", "constant", "at_least")
    make = Affine if field["kind"].value == Affine.kind else Abs
    coefficients = _read_integers(field["coefficients"])
    thresholds = field["thresholds"].read_optional(_read_integers)
    constant, at_least = field["constant"].read_integer(), field["at_least"].read_bool()
    return data.build(lambda: make(attributes, coefficients, thresholds, constant=constant, at_least=at_least))


def _read_integers(data: Field) -> list[int]:
    return [x.read_integer() for x in data.read_list()]


def _read_random(data: Field, attributes: Sequence[Attribute], store: ArrayStore) -> Factor:
    field = data.read_object("kind", "attributes", "p", "count", "seed")
    p, count, seed = field["p"].read_number(), field["count"].read_integer(), field["seed"].read_integer(0, 2**64 - 1)
    return data.build(lambda: Random(attributes, p, count, seed))


def _read_matrix(data: Field, attributes: Sequence[Attribute], store: ArrayStore) -> Factor:
    field = data.read_object("kind", "attributes", "matrix", "path")
    matrix, path = _read_queries(field["matrix"], attributes, store), field["path"].read_text()
    return data.build(lambda: Matrix(attributes, matrix, path))


def _read_predicate(data: Field, attributes: Sequence[Attribute], store: ArrayStore) -> Factor:
    field = data.read_object("kind", "attributes", "holds", "text")
    shape = tuple(a.size for a in attributes)
    holds, text = store.read(field["holds"]), field["text"].read_text()
    if holds.dtype != np.bool_ or holds.shape != shape:
        field["holds"].refuse("an array of flags, one per cell")
    return Predicate(attributes, holds, text)


def _read_queries(data: Field, attributes: Sequence[Attribute], store: ArrayStore) -> Array:
    """A matrix of queries: ``(count, *shape)``."""
    matrix = store.read_finite(data)
    if matrix.ndim < 1 or matrix.shape[1:] != tuple(a.size for a in attributes):
        data.refuse("an array with a row per query and an axis per attribute")
    return matrix


FactorReader: TypeAlias = Callable[[Field, Sequence[Attribute], ArrayStore], Factor]

READERS: dict[str, FactorReader] = {
    Marginal.kind: _read_marginal,
    **dict.fromkeys(ORDERED, _read_ordered),
    Affine.kind: _read_threshold,
    Abs.kind: _read_threshold,
    Random.kind: _read_random,
    Matrix.kind: _read_matrix,
    Predicate.kind: _read_predicate,
}


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
            **_target_data(f.target),
        }
        for f in workload.families
    ]
    # Only where it holds: the hashes of all other plans stay what they were.
    mark = {"read_from_data": True} if workload.schema.read_from_data else {}
    return {"schema": schema_data(workload.schema), **mark, "families": families}


def _target_data(target: Target | None) -> dict[str, Any]:
    """The member ``target``, only of families that have one: the hashes of all other plans stay what they were."""
    if target is None:
        return {}
    return {"target": {"std_error": target.std_error, "percent": target.percent, "largest": target.largest}}


def read_workload(data: Field, store: ArrayStore) -> Workload:
    """The inverse of `workload_data`.

    Raises:
      StorageError: it is no workload.
    """
    field = data.read_object("schema", "families", optional=["read_from_data"])
    schema = read_schema(field["schema"], field.get("read_from_data"))
    families = tuple(_read_family(f, schema, store) for f in field["families"].read_list())
    return data.build(lambda: Workload(schema, families))


def _read_family(data: Field, schema: Schema, store: ArrayStore) -> Family:
    field = data.read_object("name", "text", "weight", "choose", "aliases", "factors", optional=["target"])
    name, text, weight = field["name"].read_text(), field["text"].read_text(), field["weight"].read_number(above=0)
    factors = tuple(read_factor(x, schema, store) for x in field["factors"].read_list())
    choose = field["choose"].read_optional(_read_choose)
    aliases = tuple(x.read_text() for x in field["aliases"].read_list())
    target = _read_target(field["target"]) if "target" in field else None
    return data.build(lambda: Family(name, text, factors, weight, choose, aliases, target))


def _read_target(data: Field) -> Target:
    field = data.read_object("std_error", "percent", "largest")
    std_error, percent = field["std_error"].read_number(above=0), field["percent"].read_bool()
    return Target(float(std_error), percent, field["largest"].read_bool())


def _read_choose(data: Field) -> tuple[int, int]:
    low, high = (x.read_integer(0) for x in data.read_tuple(2))
    return low, high


def strategy_data(strategy: Strategy, store: ArrayStore) -> dict[str, Any]:
    """A strategy as plain data; its matrices go to the store."""
    if isinstance(strategy, FourierStrategy):
        return {"kind": "fourier", "kernel": store.put(strategy.kernel)}
    if isinstance(strategy, CosineStrategy):
        arrays = (strategy.half, strategy.weights, strategy.directions, strategy.gains)
        names = zip(COSINE_ARRAYS, (store.put(a) for a in arrays), strict=True)
        return {"kind": "cosine", **dict(names)}
    if isinstance(strategy, KroneckerStrategy):
        parts = [_part_data(p, store) for p in strategy.parts]
        return {"kind": "kronecker", "shape": list(strategy.shape), "parts": parts}
    if isinstance(strategy, MixtureStrategy):
        return {"kind": "mixture", "terms": [strategy_data(t, store) for t in strategy.terms]}
    if isinstance(strategy, ObliqueStrategy):
        matrices = {"measured": store.put(strategy.measured_matrix), "own": store.put(strategy.own_matrix)}
        return {"kind": "oblique", "shape": list(strategy.shape), **matrices}
    raise StorageError(f"{type(strategy).__name__} cannot be stored")


def _part_data(part: Part, store: ArrayStore) -> dict[str, Any]:
    axes = list(part.axes)
    if isinstance(part, ResidualPart):
        return {"axes": axes, "residual": part.factor}
    return {"axes": axes, "matrix": store.put(part.written_out())}


def read_strategy(data: Field, store: ArrayStore) -> Strategy:
    """The inverse of `strategy_data`.

    Raises:
      StorageError: it is no strategy, or one with many more rows than cells.
    """
    if "half" in data.read_mapping():
        field = data.read_object("kind", *COSINE_ARRAYS)
        field["kind"].read_choice(["cosine"])
        half, weights, directions, gains = (store.read_finite(field[name]) for name in COSINE_ARRAYS)
        return data.build(lambda: CosineStrategy(half, weights, directions, gains))
    if "terms" in data.read_mapping():
        field = data.read_object("kind", "terms")
        field["kind"].read_choice(["mixture"])
        terms = [_read_plain(t, store) for t in field["terms"].read_list(least=2, most=MAX_TERMS)]
        strategy: Strategy = data.build(lambda: MixtureStrategy(terms))
    elif "measured" in data.read_mapping():
        strategy = _read_oblique(data, store)
    else:
        strategy = _read_plain(data, store)
    if strategy.rows > ROWS_PER_CELL * cells(strategy.shape) + MORE_ROWS:
        data.refuse(f"a strategy of at most {ROWS_PER_CELL} rows per cell")
    return strategy


def _read_oblique(data: Field, store: ArrayStore) -> ObliqueStrategy:
    field = data.read_object("kind", "shape", "measured", "own")
    field["kind"].read_choice(["oblique"])
    shape = tuple(x.read_integer(1) for x in field["shape"].read_list(least=1, most=MAX_AXES))
    measured, own = store.read_finite(field["measured"]), store.read_finite(field["own"])
    return data.build(lambda: ObliqueStrategy(shape, measured, own))


def _read_plain(data: Field, store: ArrayStore) -> KroneckerStrategy | FourierStrategy:
    if "kernel" in data.read_mapping():
        field = data.read_object("kind", "kernel")
        field["kind"].read_choice(["fourier"])
        return _read_fourier(field["kernel"], store)
    return _read_kronecker(data, store)


def _read_fourier(data: Field, store: ArrayStore) -> FourierStrategy:
    """A circulant whose kernel is its own mirror image: else B is not symmetric, which all its arithmetic rests on."""
    kernel = store.read_finite(data)
    if not kernel.size:
        data.refuse("an array with entries")
    mirrored = kernel
    for axis in range(kernel.ndim):
        mirrored = np.roll(np.flip(mirrored, axis), 1, axis)
    if np.abs(kernel - mirrored).max() > SYMMETRIC * np.abs(kernel).max():
        data.refuse("symmetric")
    return FourierStrategy(kernel)


def _read_kronecker(data: Field, store: ArrayStore) -> KroneckerStrategy:
    field = data.read_object("kind", "shape", "parts")
    field["kind"].read_choice(["kronecker"])
    shape = tuple(x.read_integer(1) for x in field["shape"].read_list(most=MAX_AXES))
    parts = [_read_part(p, shape, store) for p in field["parts"].read_list(most=MAX_AXES + 1)]
    if sorted(a for p in parts for a in p.axes) != list(range(len(shape))):
        field["parts"].refuse("matrices that cover every axis once")
    return KroneckerStrategy(shape, parts)


def _read_part(data: Field, shape: tuple[int, ...], store: ArrayStore) -> Part:
    field = data.read_object("axes", optional=["matrix", "residual"])
    axes = tuple(x.read_integer(0, len(shape) - 1) for x in field["axes"].read_list(most=len(shape)))
    sizes = tuple(shape[a] for a in axes)
    if "residual" in field:
        factor = float(data.read_object("axes", "residual")["residual"].read_number(above=0))
        return data.build(lambda: ResidualPart(axes, sizes, factor))
    matrix = store.read_finite(data.read_object("axes", "matrix")["matrix"])
    if matrix.ndim != 2 or not matrix.shape[0] or matrix.shape[1] != cells(sizes):
        field["matrix"].refuse("a matrix with a column per cell of its axes")
    if matrix.shape[0] > ROWS_PER_CELL * matrix.shape[1] + MORE_ROWS:
        field["matrix"].refuse(f"a matrix of at most {ROWS_PER_CELL} rows per column")
    return MatrixPart(axes, sizes, matrix)
