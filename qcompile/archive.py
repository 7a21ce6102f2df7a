"""The container of plan and release files: a zip of one JSON document and NumPy arrays, versioned and hashed.

No pickle is ever read or written. The manifest lists the SHA-256 of every member, so that a damaged or edited file is
refused before anything in it is used. Hashes do not stop a forger, so no number in the file is believed either: what a
directory or an array claims is held against the bytes that are there before memory is taken for it. Nothing is ever
unpacked to a path. Equal contents give equal bytes: members are sorted, without compression or time stamps.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from qcompile.arrays import DEFAULT_MEMORY, bytes_text, cells
from qcompile.errors import StorageError
from qcompile.files import place, replacing

MANIFEST = "manifest.json"
DOCUMENT = "document.json"

MAX_DIRECTORY = 2**23
"""Bytes of a zip's directory: 90,000 arrays. A million entries would take seconds and a gigabyte to look at."""

MAX_DOCUMENT = 2**26
"""Bytes of the JSON document; as Python objects it takes up to twenty times as much."""

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


def write(path: str | Path, kind: str, version: int, document: Mapping[str, Any], arrays: Arrays) -> str:
    """Write a file in one step: either the whole new file is there, or nothing changed.

    Args:
      path: where.
      kind: what the file is, e.g. "qcompile plan".
      version: of the format of this kind.
      document: JSON data.
      arrays: by name; names are made of letters, digits, ``_``, ``.`` and ``/``.

    Returns:
      The file's content hash.

    Raises:
      StorageError: the folder does not exist or cannot be written to.
    """
    with replacing(path) as temporary:
        return fill(temporary, kind, version, document, arrays)


def fill(path: Path, kind: str, version: int, document: Mapping[str, Any], arrays: Arrays) -> str:
    """Write the contents into a file that nobody reads yet; see `write`."""
    members = {DOCUMENT: json.dumps(document, sort_keys=True, indent=1, allow_nan=False).encode()}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    hashes = _hashes(members)
    manifest = {"kind": kind, "version": version, "sha256": hashes}
    members[MANIFEST] = json.dumps(manifest, sort_keys=True, indent=1).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name in sorted(members):
            z.writestr(zipfile.ZipInfo(name), members[name])
    return content_hash(hashes)


def _hashes(members: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}


def content_hash(hashes: Mapping[str, str]) -> str:
    """One hash of all members' hashes."""
    return hashlib.sha256(json.dumps(dict(hashes), sort_keys=True).encode()).hexdigest()


def read(path: str | Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], str]:
    """Read and verify a file.

    Returns:
      Document, arrays (read-only) and content hash.

    Raises:
      StorageError: missing, not a file, not of this kind or version, damaged, or larger than memory allows.
    """
    path = Path(path)
    try:
        with _opened(path, kind) as z:
            contents, hashes = _verified(z, path, kind, version)
        return (*_decoded(contents, path), content_hash(hashes))
    except StorageError:
        raise
    except _DAMAGE:
        raise StorageError(f"{path} is not a {kind} file, or is damaged; make it again") from None


_DAMAGE = (zipfile.BadZipFile, EOFError, LookupError, TypeError, ValueError, OSError, RuntimeError)
"""What zipfile, json and NumPy raise on bytes that are not theirs; RecursionError is a RuntimeError."""


def stated_hash(path: str | Path, kind: str) -> str:
    """The content hash that a file claims: that of its members' hashes, which reading it verifies.

    Raises:
      StorageError: it is not a file of that kind.
    """
    try:
        with _opened(Path(path), kind) as z:
            return content_hash(_manifest(z)["sha256"])
    except StorageError:
        raise
    except _DAMAGE:
        raise StorageError(f"{path} is not a {kind} file, or is damaged; make it again") from None


def kind_of(path: str | Path) -> str | None:
    """The kind that a file claims to be, unverified; None when it is not one of ours."""
    try:
        with _opened(Path(path), "qcompile") as z:
            return str(_manifest(z)["kind"])
    except _DAMAGE:  # a StorageError is a ValueError
        return None


# --- the zip around the members ---


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    """The zip, its directory within bounds and in agreement with the size of the file."""
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
    """What the records at the very end of a zip say about the length of its directory.

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
    """Uncompressed members that together are no larger than the file, so that none can overlap or swell."""
    members = z.infolist()
    claimed = sum(i.file_size for i in members)
    if any(i.compress_type != zipfile.ZIP_STORED or i.compress_size != i.file_size for i in members) or claimed > size:
        raise StorageError(
            f"{path} unpacks to {bytes_text(float(claimed))} from {bytes_text(size)}, but these files are not "
            "compressed; it was not written by qcompile"
        )
    if claimed > DEFAULT_MEMORY:
        raise StorageError(f"{path} unpacks to {bytes_text(claimed)}, which is more than can be read")


# --- the members ---


def _verified(z: zipfile.ZipFile, path: Path, kind: str, version: int) -> tuple[dict[str, bytes], dict[str, str]]:
    """The members but the manifest, all of them hashed before the first is looked into, and the hashes."""
    manifest = _manifest(z)
    found = manifest["kind"]
    if found != kind:
        raise StorageError(f"{path} is a {_shown(found)} file, not a {kind} file; name a {kind} file")
    if type(manifest["version"]) is not int or manifest["version"] != version:
        raise StorageError(
            f"{path} has format version {_shown(manifest['version'])}, this qcompile reads {version}; make it again, "
            "or install the version that wrote it"
        )
    hashes: dict[str, str] = manifest["sha256"]
    names = [i.filename for i in z.infolist()]
    if len(set(names)) < len(names) or set(names) != {*hashes, MANIFEST}:
        raise StorageError(f"{path} has members that its manifest does not list; it was changed after it was written")
    contents = {name: z.read(name) for name in hashes}
    for name, found in _hashes(contents).items():
        if found != hashes[name]:
            raise StorageError(
                f"{path} is damaged or was changed after it was written ({_shown(name)} has the wrong hash); make it "
                "again"
            )
    return contents, hashes


def _decoded(contents: dict[str, bytes], path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    data = contents.pop(DOCUMENT)
    if len(data) > MAX_DOCUMENT:
        limit = bytes_text(MAX_DOCUMENT)
        raise StorageError(f"{path} describes its contents in {bytes_text(len(data))}, at most {limit} are read")
    arrays = {name.removesuffix(".npy"): _array(data) for name, data in contents.items()}
    return _json(data), arrays


def _manifest(z: zipfile.ZipFile) -> dict[str, Any]:
    if z.getinfo(MANIFEST).file_size > MAX_DOCUMENT:
        raise zipfile.BadZipFile
    return _json(z.read(MANIFEST))


def _shown(value: object) -> str:
    """A word of the file as a message may repeat it: short, and nothing that moves a terminal's cursor."""
    text = str(value) if isinstance(value, str | int | float) else type(value).__name__
    return text if len(text) <= 40 and text.isprintable() else "foreign"


def _json(data: bytes) -> dict[str, Any]:
    """JSON without the two things that Python takes although they are none: NaN, and a name given twice.

    Raises:
      ValueError: it is not JSON, or not an object.
      RecursionError: it is nested too deep.
    """
    found = json.loads(data, object_pairs_hook=_distinct, parse_constant=_refused)
    if not isinstance(found, dict):
        raise ValueError("an object is expected")
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][biuf][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,19}, )*(?:\d{1,19},?)?)\), \} *\n",
    re.DOTALL,
)
"""The one form in which `numpy.lib.format` writes the arrays of these files: numbers, C order, version 1.0."""


def _array(data: bytes) -> npt.NDArray[Any]:
    """An array over the bytes of its member, without a copy and without evaluating its header.

    Raises:
      ValueError: the header has another form, or its shape does not fit the bytes behind it.
    """
    header = _HEADER.match(data)
    if header is None or int.from_bytes(data[8:10], "little") + 10 != header.end():
        raise ValueError("not an array of numbers")
    dtype, shape = np.dtype(header[1].decode()), tuple(int(n) for n in header[2].decode().split(",") if n.strip())
    if cells(shape) * dtype.itemsize != len(data) - header.end():
        raise ValueError("the shape does not fit the data")
    return np.frombuffer(data, dtype, offset=header.end()).reshape(shape) if 0 not in shape else np.zeros(shape, dtype)
