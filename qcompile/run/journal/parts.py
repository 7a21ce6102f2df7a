"""Files of measurements that certify themselves: each holds a hash of its contents, and has its name only when whole.

A part is an array in NumPy's format, a line of JSON (the run, the part's number, its nodes and their sizes, a note),
the length of that line in 8 bytes, and a SHA-256 hash of all before it. While it is written it has no name, so that
half a part can be neither read nor copied. Where the system has no files without a name, it is called ``00000.draft``
until it is whole.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from io import BufferedRandom
from pathlib import Path
from typing import IO, Any

import numpy as np

from qcompile.release.values import NodeValues, narrow
from qcompile.support.files import sync_folder

HASH, LENGTH = 32, 8
"""Bytes at the end of a part: the hash, and before it the length of the line of JSON."""

CHUNK = 2**20
"""Bytes that are hashed at a time."""

_NO_UNNAMED = {
    errno.EOPNOTSUPP,
    errno.ENOTSUP,
    errno.ENOSYS,
    errno.EISDIR,
    errno.EINVAL,
    errno.EPERM,
    errno.EXDEV,
    errno.ENOENT,
}
"""Errors of systems and disks on which a file without a name cannot be had, or cannot be given one."""


@dataclass(frozen=True)
class Part:
    """The contents of a part but its measurements.

    Attributes:
      run: name of the run.
      number: of the part, from 0.
      nodes: whose measurements it has, in their order.
      sizes: number of measurements of each.
      note: plain data for the mechanism that drew them; None where there is nothing to note.
      sha256: hash of the file up to the hash itself, in hexadecimal; empty before it is written.
    """

    run: str
    number: int
    nodes: Sequence[int]
    sizes: Sequence[int]
    note: Any = None
    sha256: str = field(default="", compare=False)


def part_name(number: int) -> str:
    """The name of a whole part."""
    return f"{number:05}.npy"


def draft_name(number: int) -> str:
    """The name of a part that is being written, where it needs one."""
    return f"{number:05}.draft"


def write_part(folder: Path, part: Part, values: Sequence[NodeValues]) -> str:
    """Write a part; it is on disk, under its name, when this returns.

    Args:
      folder: of the run.
      part: its contents.
      values: of each node.

    Returns:
      The hash.

    Raises:
      OSError: the disk refuses; no part has the name then.
    """
    try:
        sha256 = _write_unnamed(folder, part, values)
    except OSError as e:
        if e.errno not in _NO_UNNAMED:
            raise
        sha256 = _write_draft(folder, part, values)
    sync_folder(folder)
    return sha256


def _write_unnamed(folder: Path, part: Part, values: Sequence[NodeValues]) -> str:
    if not hasattr(os, "O_TMPFILE"):
        raise OSError(errno.ENOSYS, "this system has no files without a name")
    with os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), "w+b") as file:
        sha256 = _fill(file, part, values)
        # The two folders make Python follow the link, whose own name would be given else.
        at = os.open(folder, os.O_RDONLY)
        try:
            os.link(f"/proc/self/fd/{file.fileno()}", part_name(part.number), src_dir_fd=at, dst_dir_fd=at)
        finally:
            os.close(at)
    return sha256


def _write_draft(folder: Path, part: Part, values: Sequence[NodeValues]) -> str:
    draft = folder / draft_name(part.number)
    try:
        with draft.open("w+b") as file:
            sha256 = _fill(file, part, values)
    except OSError:  # half of it must not stay
        draft.unlink(missing_ok=True)
        raise
    draft.rename(folder / part_name(part.number))
    return sha256


def _fill(file: BufferedRandom, part: Part, values: Sequence[NodeValues]) -> str:
    """Write a part's contents to disk; returns the hash."""
    np.save(file, narrow(np.concatenate(values)), allow_pickle=False)
    line = json.dumps({k: v for k, v in asdict(part).items() if k != "sha256"}).encode()
    file.write(line + len(line).to_bytes(LENGTH))
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256")
    file.write(digest.digest())
    file.flush()
    os.fsync(file.fileno())
    return digest.hexdigest()


def finish_draft(folder: Path, number: int) -> None:
    """Give a draft that a killed process has left its name if it is whole; else remove it."""
    draft = folder / draft_name(number)
    if not draft.exists():
        return
    try:
        read_part(draft)
    except (ValueError, LookupError, TypeError):
        draft.unlink()
    else:
        draft.rename(folder / part_name(number))


def read_part(path: Path) -> Part:
    """Read a part and verify its hash.

    Raises:
      ValueError, LookupError, TypeError: it is damaged or not whole.
      OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END) - HASH
        if size < 0:
            raise ValueError("a part is not whole")
        file.seek(size)
        stated = file.read()
        if _digest(file, size) != stated:
            raise ValueError("a part is damaged")
        file.seek(size - LENGTH)
        length = int.from_bytes(file.read(LENGTH))
        file.seek(size - LENGTH - length)
        return Part(**json.loads(file.read(length)), sha256=stated.hex())


def _digest(file: IO[bytes], size: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    for start in range(0, size, CHUNK):
        digest.update(file.read(min(CHUNK, size - start)))
    return digest.digest()


def read_values(path: Path, start: int, stop: int) -> NodeValues:
    """Some measurements of a part that was verified.

    The file is mapped anew each time, as a file that stays mapped counts as memory of the process.
    """
    return np.array(np.load(path, mmap_mode="r", allow_pickle=False)[start:stop])
