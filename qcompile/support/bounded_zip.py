"""The zip of plan and release files, opened within bounds of memory and time for any content."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from qcompile.errors import StorageError
from qcompile.support.arrays import bytes_text
from qcompile.support.files import place

MAX_DIRECTORY = 2**23
"""Bytes of a zip's directory: 90,000 arrays. A million entries would take seconds and a gigabyte to look at."""


@contextmanager
def open_zip(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip after a check of its directory against bounds and the size of the file.

    Raises:
      StorageError: there is no such file, or it cannot be one of ours.
      BadZipFile: it is damaged, or something else.
    """
    found = place(path)
    if found == "nothing":
        raise StorageError(f"there is no file {path}; check the name and the current folder")
    if found != "file":
        what = "a folder" if found == "folder" else "a pipe or a device"
        raise StorageError(f"{path} is {what}, not a {kind} file; name a {kind} file")
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        if _directory_size(file, size) > MAX_DIRECTORY:
            raise StorageError(f"{path} has more members than a {kind} file can have; name a {kind} file")
        with zipfile.ZipFile(file) as z:
            _check_members(z, path, size)
            yield z


def _directory_size(file: BinaryIO, size: int) -> int:
    """Read the length of the directory from the records at the end of a zip.

    Raises:
      BadZipFile: they are not where the writer of these files puts them, so zipfile might take others.
    """
    file.seek(max(0, size - 98))
    tail = file.read(98)
    if tail[-22:-18] != b"PK\5\6" or tail[-2:] != b"\0\0":
        raise zipfile.BadZipFile
    (length,) = struct.unpack("<L", tail[-10:-6])
    if tail[-42:-38] != b"PK\6\7":
        return int(length)
    # A file of more than 4 GB: a record with longer numbers precedes, and a pointer to it.
    (where,) = struct.unpack("<Q", tail[-34:-26])
    if where != size - 98 or tail[:4] != b"PK\6\6":
        raise zipfile.BadZipFile
    (long_length,) = struct.unpack("<Q", tail[40:48])
    return max(int(length), int(long_length))


def _check_members(z: zipfile.ZipFile, path: Path, size: int) -> None:
    """Require uncompressed members, together no larger than the file: none can overlap or expand."""
    members = z.infolist()
    claimed = sum(i.file_size for i in members)
    if any(i.compress_type != zipfile.ZIP_STORED or i.compress_size != i.file_size for i in members) or claimed > size:
        raise StorageError(
            f"{path} unpacks to {bytes_text(float(claimed))} from {bytes_text(size)}, but these files are not "
            "compressed; it was not written by qcompile"
        )
