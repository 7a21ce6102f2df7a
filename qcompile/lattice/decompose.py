"""From families to the closure lattice: every product split over the subsets of its attributes.

A node's Gram is the sum, over the products that reach it, of weight times the Kronecker product of each factor's
projected Gram. It stays symbolic: a term is a tuple of Gram identities, and equal terms only add coefficients.
Nodes whose symbolic sums agree up to an order of the axes form a class and are solved once.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from qcompile.errors import IntegrityError, OptionError, SizeError, did_you_mean
from qcompile.lattice.classes import _Classifier
from qcompile.lattice.lattice import Lattice, Node, lower_covers, subsets
from qcompile.lattice.oblique import Oblique
from qcompile.lattice.ordered_grams import has_closed_gram
from qcompile.lattice.projection import PROJECTED, equal_weights, zero_weights
from qcompile.lattice.symbolic_grams import Splitter, Sums
from qcompile.queries.factors import Factor, Whole
from qcompile.queries.factors.base import COPIES, GRAM_REMEDY, OneAttribute
from qcompile.queries.schema import Schema
from qcompile.queries.weighting import Weighting, weighted_products
from qcompile.queries.workload import Family, Workload
from qcompile.support.arrays import Array, cells, require_memory
from qcompile.support.text import plural

LARGEST_WEIGHTS = 1e3
"""Sum of the absolute centring weights of an attribute beyond which too many digits cancel."""

ALMOST = 1e-7
"""Relative distance from their mirror image up to which weights are taken to be symmetric."""

VECTORS = 16
"""Vectors of an attribute's cells that live at once while an identity is solved by its spectrum."""

MAX_NODES = 4_000_000
"""Nodes of a family that may be listed: a few gigabytes."""


def decompose(
    workload: Workload,
    centring: Mapping[str, Array] | None = None,
    blocks: Sequence[Sequence[str]] = (),
    labels: Mapping[str, str] | None = None,
    weighting: Weighting | None = None,
    oblique: Sequence[Oblique] = (),
) -> Lattice:
    """The closure lattice of a workload, and the blocks beside it.

    Args:
      workload: the families.
      centring: weights u per attribute name (shape ``(size,)``, sum 1); uniform where absent.
      blocks: names of the families of each block: they are measured unsplit, on the union of their attributes.
      labels: per attribute name, what tells it apart from others with the same numbers.
      weighting: weights of products and queries in place of the families' own.
      oblique: what maximal nodes measure beyond their own residual.

    Raises:
      OptionError: weights for an unknown attribute, of the wrong length, or that do not sum to 1; a block that is
        empty, or names a family that does not exist or is in another block.
      IntegrityError: an oblique node that is not maximal, or of another shape than its matrix.
      SizeError: a factor's Gram would not fit in memory.
    """
    require_grams(workload, centring or {})
    weights = centring_weights(workload.schema, centring or {})
    return symbolic(workload, weights, blocks, labels, weighting, oblique)[0]


def require_grams(workload: Workload, centring: Mapping[str, Array] = MappingProxyType({})) -> None:
    """Refuse a workload whose Gram matrices do not fit in memory together, before any of them is made.

    Args:
      workload: the families.
      centring: weights per attribute name, not checked yet.

    Raises:
      SizeError: names the largest.
    """
    own = {name for name, u in centring.items() if len(set(np.ravel(np.asarray(u, dtype=object)).tolist())) > 1}
    factors = {f.key: f for family in workload.families for f in family.factors}
    needs = {f: _gram_numbers(f, own) for f in factors.values()}
    if not needs:  # nothing but the total
        return
    largest = max(needs, key=needs.__getitem__)
    beside = f" beside {plural(len(needs) - 1, 'other')}" if len(needs) > 1 else ""
    sizes = " x ".join(f"{n:,}" for n in largest.shape)
    what = f"the Gram matrix of {largest.kind}({', '.join(largest.names)}) on {sizes} values{beside}"
    require_memory(what, sum(needs.values()), GRAM_REMEDY)


def _gram_numbers(factor: Factor, centring: Container[str]) -> int:
    """Numbers that a factor's Gram, its projected queries where these are fewer, or its spectrum take while made."""
    if not isinstance(factor, OneAttribute):
        return PROJECTED * factor.count * cells(factor.shape)
    structured = factor.exchangeable_gram is not None or has_closed_gram(factor)
    structured = structured and factor.attribute.name not in centring
    return VECTORS * factor.size if structured else COPIES * factor.size**2


def symbolic(
    workload: Workload,
    weights: tuple[Array, ...],
    blocks: Sequence[Sequence[str]] = (),
    labels: Mapping[str, str] | None = None,
    weighting: Weighting | None = None,
    oblique: Sequence[Oblique] = (),
) -> tuple[Lattice, Splitter]:
    """The lattice for given centring weights of every attribute, with the symbolic sums behind its nodes."""
    blocks = check_blocks(workload, blocks)
    tops = oblique_nodes(workload.schema, oblique)
    splitter = split(workload, weights, blocks, weighting, tops)
    nodes = sorted(splitter.sums, key=lambda node: (len(node), node))
    named = tuple((labels or {}).get(name, "") for name in workload.schema.names)
    classifier = _Classifier(workload.schema, weights, named)
    require_maximal(nodes, tops)
    placed = [_place(classifier, node, splitter, tops) for node in nodes]
    raw = Splitter(workload.schema, tuple(zero_weights(a.size) for a in workload.schema))
    uncentred_classes = replace(classifier, weights=raw.weights, _seen={})
    for names in blocks:
        node, sums = block_sums(raw, workload, names, weighting)
        nodes.append(node)
        placed.append(uncentred_classes.place(node, raw, sums))
    lattice = Lattice(
        schema=workload.schema,
        centring=weights,
        nodes=tuple(nodes),
        class_of=np.array([c for c, _ in placed], dtype=np.int64),
        orders=tuple(order for _, order in placed),
        classes=tuple(classifier.problems),
        blocks=blocks,
    )
    return lattice, splitter


Tops: TypeAlias = Mapping[Node, tuple[Oblique, tuple[int, ...]]]
"""Per oblique node what it measures, and the attribute at each canonical axis."""


def oblique_nodes(schema: Schema, oblique: Sequence[Oblique]) -> Tops:
    """The oblique nodes by their attributes.

    Raises:
      IntegrityError: a node is named twice, or its shape is not that of its matrix.
    """
    tops: dict[Node, tuple[Oblique, tuple[int, ...]]] = {}
    for o in oblique:
        for member in o.members:
            node = tuple(sorted(set(member)))
            size = cells([schema.attributes[a].size for a in member])
            if node in tops or len(node) != len(member) or size != o.measured.shape[1]:
                raise IntegrityError("an oblique node is named once, and its matrix has a column per cell")
            tops[node] = o, member
    return tops


def closure_nodes(workload: Workload, blocks: Sequence[Sequence[str]] = ()) -> list[Node]:
    """The nodes of the closure in their order: all subsets of the products that are in no block."""
    apart = {name for names in blocks for name in names}
    position, found = workload.schema.positions, set[Node]()
    for family in workload.families:
        if apart.isdisjoint((family.name, *family.aliases)):
            for product in family.products():
                node = tuple(sorted(position[n] for n in product.names))
                if node not in found:
                    found.update(subsets(node))
    return sorted(found, key=lambda node: (len(node), node))


def require_maximal(nodes: Sequence[Node], tops: Tops) -> None:
    """Refuse oblique nodes that are none of the closure, or lie below another.

    Raises:
      IntegrityError: there is one.
    """
    held = {below for node in nodes for below in lower_covers(node)} if tops else set()
    if not set(nodes) >= set(tops) or not held.isdisjoint(tops):
        raise IntegrityError("only maximal nodes of the closure can be oblique")


def _place(classifier: _Classifier, node: Node, splitter: Splitter, tops: Tops) -> tuple[int, tuple[int, ...]]:
    sums = splitter.sums[node]
    if node not in tops or not sums:
        return classifier.place(node, splitter, sums)
    oblique, member = tops[node]
    return classifier.place_oblique(node, splitter, sums, oblique.identity, tuple(node.index(a) for a in member))


def split(
    workload: Workload,
    weights: tuple[Array, ...],
    blocks: Sequence[Sequence[str]] = (),
    weighting: Weighting | None = None,
    tops: Tops = MappingProxyType({}),
) -> Splitter:
    """The symbolic Grams of all nodes below the families that are in no block."""
    splitter = Splitter(workload.schema, weights)
    apart = {name for names in blocks for name in names}
    for family in workload.families:
        if family.name not in apart:
            _require_few_nodes(family)
            for product, weight in weighted_products(family, weighting):
                top = tops.get(tuple(sorted(workload.schema.positions[n] for n in product.names))) if tops else None
                if top is None:
                    splitter.add(product.factors, weight)
                else:
                    splitter.add_oblique(product.factors, weight, *top)
    return splitter


def least_nodes(family: Family) -> int:
    """Nodes that a family is sure to have, or so many that the number does not matter."""
    if family.choose is not None:
        return count_subsets(family)
    return 1 << min(64, sum(n > 1 for f in family.factors for n in f.shape))


def count_subsets(family: Family) -> int:
    """Sets of up to as many factors as a family chooses; counted until the number does not matter."""
    if family.choose is None:
        return 1
    total = k = 0
    while k <= family.choose[1] and total < 2**64:
        total, k = total + math.comb(len(family.factors), k), k + 1
    return total


def _require_few_nodes(family: Family) -> None:
    """Refuse, before they are listed, more nodes than fit in memory."""
    nodes = least_nodes(family)
    if nodes > MAX_NODES:
        raise SizeError(
            f"family {family.name!r} stands for {nodes:,} or more sets of attributes, at most {MAX_NODES:,} can be "
            "measured; ask for combinations of fewer attributes"
        )


def block_sums(
    raw: Splitter, workload: Workload, names: Sequence[str], weighting: Weighting | None = None
) -> tuple[Node, Sums]:
    """A block's attributes and the symbolic Gram of its families' queries, which are not centred there."""
    families = [workload.family(name) for name in names]
    position, attributes = workload.schema.positions, workload.schema.attributes
    node = tuple(sorted({position[n] for f in families for x in f.factors for n in x.names}))
    sums: Sums = {}
    for family in families:
        for product, weight in weighted_products(family, weighting):
            rest = tuple(Whole(attributes[i]) for i in node if attributes[i].name not in product.names)
            groups = raw.whole((*product.factors, *rest))
            if groups is not None:
                entry = sums.setdefault(groups, {}).setdefault((), [0.0, 0])
                entry[0] += weight
                entry[1] += 1
    return node, sums


def check_blocks(workload: Workload, blocks: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The blocks with families by their own names, not aliases.

    Raises:
      OptionError: an empty block, an unknown family, or one that is named twice.
    """
    resolved = tuple(tuple(workload.family(name).name for name in names) for names in blocks)
    seen: set[str] = set()
    for names in resolved:
        if not names:
            raise OptionError("a block needs at least one family")
        for name in names:
            if name in seen:
                raise OptionError(f"family {name!r} is named twice in the blocks; a family is measured in one place")
            seen.add(name)
    return resolved


def centring_weights(schema: Schema, given: Mapping[str, Array]) -> tuple[Array, ...]:
    """The weights u of every attribute in schema order, validated."""
    for name in given:
        if name not in schema:
            raise OptionError(f"centring weights for unknown attribute {name!r}; {did_you_mean(name, schema.names)}")
    return tuple(_weights(a.name, a.size, given.get(a.name)) for a in schema)


def _weights(name: str, size: int, given: Array | None) -> Array:
    if given is None:
        require_memory(f"the centring of {name!r}", size, "use a smaller domain, or bins")
        return equal_weights(size, 1.0 / size)
    try:
        u = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"the centring weights of {name!r} must be {size} numbers, got {given!r}") from None
    if u.shape != (size,) or not np.isfinite(u).all() or not abs(u.sum() - 1) <= 1e-9:
        raise OptionError(f"the centring weights of {name!r} must be {size} finite numbers that sum to 1")
    if not np.abs(u).sum() <= LARGEST_WEIGHTS:
        raise OptionError(
            f"the centring weights of {name!r} are so large that digits are lost; keep them near 1/{size}"
        )
    u = _symmetrise(u)
    # Scaled once: weights that come back from a file must keep their bits.
    return u if abs(u.sum() - 1) <= size * np.finfo(float).eps else np.asarray(u / u.sum())


def _symmetrise(u: Array) -> Array:
    """Weights that are symmetric but for their last digits, made so exactly.

    Solvers find symmetries with a tolerance and then use them exactly: the strategy would be centred on the symmetric
    weights, not on those that estimates are put together with, a bias of 10^-12 of all rows.
    """
    mean = (u + u[::-1]) / 2
    return np.asarray(mean) if np.abs(u - mean).max() <= ALMOST * np.abs(u).max() else u
