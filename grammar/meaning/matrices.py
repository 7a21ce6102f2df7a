"""Matrix files to factors. A file is checked by its header before it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from qcompile.errors import SizeError
from qcompile.grammar.meaning.scope import Scope
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import Findings
from qcompile.queries.factors import Matrix
from qcompile.support.arrays import cells, require_memory


def resolve_matrix(node: syntax.MatrixFile, scope: Scope, base: Path) -> Matrix:
    """Resolve ``matrix(names; "file.npy")`` to a factor: one query per row, cells in C order of the names.

    Raises:
      Stop: after reporting what is wrong with the file.
    """
    attributes = scope.find_attributes(node.names)
    array = _map_array(node.path, base, scope.findings)
    shape = tuple(a.size for a in attributes)
    _check(node, array, shape, scope.findings)
    matrix = np.array(array, dtype=np.float64)
    if not np.isfinite(matrix).all():
        scope.findings.fail(f"{node.path.value!r} has entries that are not finite", node.path.at, "replace nan and inf")
    return Matrix(attributes, matrix, node.path.value)


def _map_array(path: syntax.Text, base: Path, findings: Findings) -> Any:
    """Map the array of a file without reading it."""
    try:
        file = base / path.value
        if not file.is_file():
            what = "is not a file" if file.exists() else "does not exist"
            findings.fail(f"the matrix file {path.value!r} {what}", path.at, f"paths are relative to {_folder(base)}")
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError):
        hint = "save it with numpy.save(path, matrix) as a plain array of numbers; pickled objects are not read"
        findings.fail(f"{path.value!r} cannot be read as a .npy file", path.at, hint)
    if not isinstance(array, np.ndarray):
        array.close()
        findings.fail(f"{path.value!r} is an archive of several arrays", path.at, "save one array with numpy.save")
    return array


def _folder(base: Path) -> str:
    return "the current folder" if base == Path() else "the folder of the .q file"


def _check(node: syntax.MatrixFile, array: Any, shape: tuple[int, ...], findings: Findings) -> None:
    name, at, size = node.path.value, node.path.at, cells(shape)
    if array.dtype.kind not in "biuf":
        findings.fail(f"{name!r} holds {array.dtype} values, not real numbers", at, "convert it with .astype(float)")
    if array.ndim != 2 or array.shape[1] != size:
        by = " x ".join(map(str, shape))
        needed = f"{size}" if len(shape) == 1 else f"{by} = {size}"
        hint = f"it needs one row per query and {needed} columns, one per cell"
        findings.fail(f"{name!r} has shape {array.shape}", at, hint)
    if array.shape[0] == 0:
        findings.fail(f"{name!r} has no rows", at, "it needs at least one query")
    try:
        require_memory(f"the matrix {name!r}", array.size, "split it, or use a structured factor")
    except SizeError as e:
        findings.fail(str(e), at)
