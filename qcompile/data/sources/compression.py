"""Text files that may be compressed with gzip, which their first bytes tell."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from qcompile.errors import DataError

GZIP = b"\x1f\x8b"
"""The first bytes of a file that is compressed with gzip."""

PIECE = 2**20
"""Bytes that are read at once where their number does not matter."""


def is_compressed(path: Path) -> bool:
    """True if a file is compressed with gzip, whatever its name."""
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


def read_pieces(path: Path, size: int = PIECE) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file in pieces; all but the last are of one size.

    Read to the end, the check sums are compared, which DuckDB does not do.

    Args:
      path: of the file.
      size: of the pieces, bytes.

    Raises:
      DataError: the file is compressed, but damaged.
    """
    with _open(path) as file:
        while piece := _read(path, file, size):
            yield piece


def count_bytes(path: Path) -> int:
    """Return the number of decompressed bytes.

    Raises:
      DataError: the file is compressed, but damaged.
    """
    return sum(map(len, read_pieces(path))) if is_compressed(path) else path.stat().st_size


def count_lines(path: Path) -> int:
    """Return the number of ends of lines.

    Raises:
      DataError: the file is compressed, but damaged.
    """
    return sum(piece.count(b"\n") for piece in read_pieces(path))


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.open(path) if is_compressed(path) else path.open("rb")


def _read(path: Path, file: BinaryIO | gzip.GzipFile, size: int) -> bytes:
    try:
        return file.read(size)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        pass
    raise DataError(f"{path} is compressed with gzip, but damaged or unfinished; compress it anew")
