"""One query, asked of a release."""

from __future__ import annotations

from pathlib import Path

from qcompile.grammar.meaning.families import resolve_product
from qcompile.grammar.meaning.scope import Scope
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import Findings, Stop
from qcompile.queries.factors import Abs, Affine
from qcompile.queries.schema import Schema
from qcompile.queries.workload import Product

_HINT = "ask count(...), total, or a product with a single query such as affine(a + b <= 40)"


def resolve_query(node: syntax.Expression, schema: Schema, findings: Findings) -> Product | None:
    """Resolve a query expression to a product, or to None after reporting the errors."""
    at = (0, max(1, len(findings.source.text.split("\n", 1)[0])))
    if isinstance(node, syntax.Each):
        findings.error("this is many queries; only one can be asked at a time", at, _HINT)
        return None
    try:
        product = Product(resolve_product(node, Scope(schema, findings, asked=True), Path()))
    except Stop:
        return None
    if not _has_one_query(product):
        findings.error("this is more than one query; only one can be asked at a time", at, _HINT)
        return None
    return product


def _has_one_query(product: Product) -> bool:
    """True if every factor has one query; the thresholds of large forms are not listed for it."""
    for factor in product.factors:
        if isinstance(factor, Affine | Abs) and factor.thresholds is None:
            if any(size > 1 for size in factor.shape):
                return False
        elif factor.count != 1:
            return False
    return True
