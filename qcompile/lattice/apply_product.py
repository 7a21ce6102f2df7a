"""From the marginal on a product's attributes to the answers of its queries."""

from __future__ import annotations

import numpy as np

from qcompile.lattice.lattice import Lattice
from qcompile.queries.workload import Product
from qcompile.support.arrays import Array


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


def largest_z(closure: Lattice, product: Product, table: Array, variances: Array) -> Array:
    """The maximum of |z| over a product's queries for simulated errors ``(*sizes, simulations)``."""
    errors = apply_product(closure, product, table)
    scale = np.sqrt(np.where(variances > 0, variances, np.inf))[..., None]
    z: Array = np.abs(errors / scale)
    return np.asarray(z.reshape(-1, z.shape[-1]).max(axis=0))
