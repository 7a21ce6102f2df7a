"""Tables of answers: labels, estimates, standard errors and intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qcompile.arrays import Array, require_memory
from qcompile.lattice import Lattice
from qcompile.release.intervals import Width
from qcompile.workload import Family, Product

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED = ("estimate", "std_error", "lower", "upper")


def apply_product(closure: Lattice, product: Product, table: Array) -> Array:
    """The answers of a product from the marginal on its attributes.

    Args:
      closure: gives the order of axes.
      product: the queries.
      table: the marginal, axes in schema order, then batch axes; a block's marginal is on all its attributes.

    Returns:
      Shape ``(*product.shape, *batch)``.
    """
    shape, product = product.shape, closure.covering(product)
    positions = [closure.schema.positions[n] for n in product.names]
    order = [sorted(positions).index(p) for p in positions]
    k = len(positions)
    x = table.transpose(*order, *range(k, table.ndim))
    for f in product.factors:  # each consumes its leading axes; its queries go behind those already there
        x = np.moveaxis(f.apply(x), 0, k - len(f.shape))
        k += 1 - len(f.shape)
    return x.reshape((*shape, *x.shape[k:]))


def family_table(
    family: Family, rows: Iterator[tuple[Product, Array, Array | None]], width: Width | None, made: str
) -> pa.Table:
    """One row per query in query order; label columns as text, then estimate, std_error, lower and upper.

    Args:
      family: gives the label columns.
      rows: per product its answers and variances, shape ``product.shape``; no variances where none hold.
      width: of the intervals, named in the table's metadata as ``interval``; None where none hold.
      made: how the estimates were made, in the metadata as ``estimate``.

    Raises:
      SizeError: more rows than memory holds.
    """
    import pyarrow as pa

    columns = list(dict.fromkeys(f.column for f in family.factors))
    require_memory(
        f"a table of the {family.count:,} answers of {family.name!r}",
        family.count * (len(columns) + len(RESERVED)),
        "ask for single queries, or for a smaller family",
    )
    tables = [_product_table(columns, p, x, v, width) for p, x, v in rows]
    table = pa.concat_tables(tables).unify_dictionaries()
    interval = "none: best estimates are biased" if width is None else width.method
    return table.replace_schema_metadata({"family": family.name, "estimate": made, "interval": interval})


def _product_table(
    columns: Sequence[str], product: Product, x: Array, variances: Array | None, width: Width | None
) -> Any:
    import pyarrow as pa

    labels = _labels(product)
    data: dict[str, Any] = {label_column(c): labels.get(c) for c in columns}
    for c, values in data.items():
        if values is None:
            data[c] = pa.nulls(product.count, pa.string()).dictionary_encode()
    return pa.table(data | _numbers(x.ravel(), variances, width))


def _numbers(estimate: Array, variances: Array | None, width: Width | None) -> dict[str, Any]:
    """The columns of `RESERVED`; null where a query is not estimable or no standard error holds."""
    import pyarrow as pa

    if variances is None or width is None:
        nothing = pa.nulls(estimate.size, pa.float64())
        return {"estimate": estimate, "std_error": nothing, "lower": nothing, "upper": nothing}
    error = np.sqrt(variances.ravel())
    half, unknown = width.quantile * error, np.isinf(error)
    columns = (estimate, error, estimate - half, estimate + half)
    return {name: pa.array(values, mask=unknown) for name, values in zip(RESERVED, columns, strict=True)}


def label_column(column: str) -> str:
    """The name of a label column; attributes that are called like a result column are told apart."""
    return f"{column} (label)" if column in RESERVED else column


def _labels(product: Product) -> dict[str, Any]:
    """Per factor its queries' labels, repeated over the product in C order, dictionary-encoded."""
    import pyarrow as pa

    result, shape = {}, product.shape
    for axis, f in enumerate(product.factors):
        codes = np.arange(f.count, dtype=np.int32)
        spread = np.tile(np.repeat(codes, math.prod(shape[axis + 1 :])), math.prod(shape[:axis]))
        result[f.column] = pa.DictionaryArray.from_arrays(pa.array(spread), pa.array(f.labels(), pa.string()))
    return result


def largest_z(closure: Lattice, product: Product, table: Array, variances: Array) -> Array:
    """The maximum of |z| over a product's queries for simulated errors ``(*sizes, simulations)``."""
    errors = apply_product(closure, product, table)
    scale = np.sqrt(np.where(variances > 0, variances, np.inf))[..., None]
    z: Array = np.abs(errors / scale)
    return np.asarray(z.reshape(-1, z.shape[-1]).max(axis=0))
