"""The format of plan and release files: a zip of one JSON document and NumPy arrays, versioned and hashed.

No pickle is ever read or written. The manifest lists the SHA-256 of every member, so that a damaged or edited file is
refused: a small file before anything in it is used, the parts of a large one when they are first read. Hashes do not
stop a forger, so numbers in the file are checked too: the sizes that a directory or an array claims are compared with
the bytes of the file before memory is allocated. Nothing is ever unpacked to a path. Equal contents give equal bytes:
members have a fixed order, no compression and no time stamps.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcompile.errors import StorageError
from qcompile.support.arrays import DEFAULT_MEMORY, bytes_text, cells
from qcompile.support.bounded_zip import open_zip
from qcompile.support.files import replacing

MANIFEST = "manifest.json"
DOCUMENT = "document.json"

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


def fill(
    path: Path,
    kind: str,
    version: int,
    document: Mapping[str, Any],
    arrays: Arrays,
    parts: Iterable[tuple[str, npt.NDArray[Any]]] = (),
) -> str:
    """Write the contents into a new file; see `write`.

    Args:
      path: where.
      kind: see `write`.
      version: see `write`.
      document: see `write`.
      arrays: see `write`.
      parts: further arrays, behind the others in this order, each asked for when it is written.
    """
    hashes: dict[str, str] = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:

        def add(name: str, data: bytes) -> None:
            hashes[name] = hashlib.sha256(data).hexdigest()
            z.writestr(zipfile.ZipInfo(name), data)

        add(DOCUMENT, json.dumps(document, sort_keys=True, indent=1, allow_nan=False).encode())
        for name, array in sorted(arrays.items()):
            add(f"{name}.npy", _bytes(array))
        for name, array in parts:
            add(f"{name}.npy", _bytes(array))
        manifest = {"kind": kind, "version": version, "sha256": hashes}
        z.writestr(zipfile.ZipInfo(MANIFEST), json.dumps(manifest, sort_keys=True, indent=1).encode())
    return content_hash(hashes)


def _bytes(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def content_hash(hashes: Mapping[str, str]) -> str:
    """Hash the hashes of all members."""
    return hashlib.sha256(json.dumps(dict(hashes), sort_keys=True).encode()).hexdigest()


def read(
    path: str | Path, kind: str, version: int, oldest: int | None = None
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], str]:
    """Read and verify a file, all of it.

    Args:
      path: the file.
      kind: see `write`.
      version: the newest format that is read.
      oldest: the oldest; only the newest where None.

    Returns:
      Document, arrays (read-only) and content hash.

    Raises:
      StorageError: missing, not a file, not of this kind or version, damaged, or larger than memory allows.
    """
    with Archive.open(path, kind, version, oldest) as found:
        return found.document, found.arrays(found.names), found.content


class Archive:
    """A file whose arrays are read and verified when they are asked for, by any thread.

    It stays open as long as it is used, so that later reads are of the same file, even after another one has
    taken its name.

    Attributes:
      path: of the file, for messages.
      kind: of the file, likewise.
      version: the format of the file.
      document: the JSON document, verified.
      content: the content hash that the manifest states; every array is verified against it when read.
      close: closes the file, which happens by itself when it is no longer used.
    """

    def __init__(self, path: Path, kind: str, version: int, oldest: int | None = None) -> None:
        self.path, self.kind, self._lock = path, kind, threading.Lock()
        with ExitStack() as stack:
            self._zip = stack.enter_context(open_zip(path, kind))
            self.version, self._hashes = _read_manifest(
                self._zip, path, kind, version if oldest is None else oldest, version
            )
            self.document = _document(self._member(DOCUMENT), path)
            self.content = content_hash(self._hashes)
            self.close = weakref.finalize(self, stack.pop_all().close)

    @classmethod
    def open(cls, path: str | Path, kind: str, version: int, oldest: int | None = None) -> Archive:
        """Open a file; see `read`.

        Raises:
          StorageError: missing, not a file, not of this kind or version, or damaged.
        """
        with _explain_damage(Path(path), kind):
            return cls(Path(path), kind, version, oldest)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def names(self) -> list[str]:
        """The names of all arrays, sorted."""
        return [name.removesuffix(".npy") for name in self._hashes if name != DOCUMENT]

    def size(self, name: str) -> int:
        """Return the bytes of an array, its header of about 100 included."""
        return self._zip.getinfo(f"{name}.npy").file_size

    def lazy(self, start: str) -> Arrays:
        """Return the arrays with names that begin with ``start``, each read and verified on access."""
        return _Lazy(self, [name for name in self.names if name.startswith(start)])

    def arrays(self, names: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
        """Read some arrays, read-only; all are verified before the first is parsed.

        Raises:
          StorageError: one is damaged, or they are larger than memory allows.
        """
        sizes = {name: self.size(name) for name in names}
        if sum(sizes.values()) > DEFAULT_MEMORY:
            raise StorageError(f"{self.path} unpacks to {bytes_text(sum(sizes.values()))}, which is more than is read")
        members = {name: self._member(f"{name}.npy") for name in sizes}
        with _explain_damage(self.path, self.kind):
            return {name: _array(data) for name, data in members.items()}

    def _member(self, name: str) -> bytes:
        try:
            with self._lock:
                data = self._zip.read(name)
        except _DAMAGE:
            data = b""  # which has another hash
        if hashlib.sha256(data).hexdigest() != self._hashes[name]:
            raise StorageError(
                f"{self.path} is damaged or was changed after it was written ({_safe_word(name)} has the wrong hash); "
                f"{_advice(self.kind)}"
            )
        return data


class _Lazy(Mapping[str, npt.NDArray[Any]]):
    def __init__(self, archive: Archive, names: list[str]) -> None:
        self._archive, self._names = archive, dict.fromkeys(names)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._names:
            raise KeyError(name)
        return self._archive.arrays([name])[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _advice(kind: str) -> str:
    return (
        "name another, or take a copy of it: a new run would spend a budget" if "release" in kind else "make it again"
    )


@contextmanager
def _explain_damage(path: Path, kind: str) -> Iterator[None]:
    """Raise a StorageError for anything that a damaged or foreign file raises.

    Raises:
      StorageError: it is not.
    """
    try:
        yield
    except StorageError:
        raise
    except _DAMAGE:
        raise StorageError(f"{path} is not a {kind} file, or is damaged; {_advice(kind)}") from None


_DAMAGE = (zipfile.BadZipFile, EOFError, LookupError, TypeError, ValueError, OSError, RuntimeError)
"""Exceptions of zipfile, json and NumPy on foreign bytes; RecursionError is a RuntimeError."""


def stated_hash(path: str | Path, kind: str) -> str:
    """Return the content hash that a file claims, unverified.

    Raises:
      StorageError: it is not a file of that kind.
    """
    with _explain_damage(Path(path), kind), open_zip(Path(path), kind) as z:
        return content_hash(_manifest(z)["sha256"])


def kind_of(path: str | Path) -> str | None:
    """Return the kind that a file claims to be, unverified; None for foreign files."""
    try:
        with open_zip(Path(path), "qcompile") as z:
            return str(_manifest(z)["kind"])
    except _DAMAGE:  # a StorageError is a ValueError
        return None


def _read_manifest(z: zipfile.ZipFile, path: Path, kind: str, oldest: int, newest: int) -> tuple[int, dict[str, str]]:
    """Return the format and the hashes of the members after a check that none is missing or unlisted."""
    manifest = _manifest(z)
    found = manifest["kind"]
    if found != kind:
        raise StorageError(f"{path} is a {_safe_word(found)} file, not a {kind} file; name a {kind} file")
    if type(manifest["version"]) is not int or not oldest <= manifest["version"] <= newest:
        read = str(newest) if oldest == newest else f"{oldest} to {newest}"
        raise StorageError(
            f"{path} has format version {_safe_word(manifest['version'])}, this qcompile reads {read}; "
            "make it again, or install the version that wrote it"
        )
    hashes: dict[str, str] = manifest["sha256"]
    names = [i.filename for i in z.infolist()]
    if len(set(names)) < len(names) or set(names) != {*hashes, MANIFEST}:
        raise StorageError(f"{path} has members that its manifest does not list; it was changed after it was written")
    if not all(name == DOCUMENT or name.endswith(".npy") for name in hashes):
        raise StorageError(f"{path} has a member that is no array; it was not written by qcompile")
    return int(manifest["version"]), hashes


def _document(data: bytes, path: Path) -> dict[str, Any]:
    if len(data) > MAX_DOCUMENT:
        limit = bytes_text(MAX_DOCUMENT)
        raise StorageError(f"{path} describes its contents in {bytes_text(len(data))}, at most {limit} are read")
    return _json(data)


def _manifest(z: zipfile.ZipFile) -> dict[str, Any]:
    if z.getinfo(MANIFEST).file_size > MAX_DOCUMENT:
        raise zipfile.BadZipFile
    return _json(z.read(MANIFEST))


def _safe_word(value: object) -> str:
    """Return a word of the file that is safe in a message: short, and without control characters."""
    text = str(value) if isinstance(value, str | int | float) else type(value).__name__
    return text if len(text) <= 40 and text.isprintable() else "foreign"


def _json(data: bytes) -> dict[str, Any]:
    """Parse strict JSON: no NaN and no repeated names, which Python would accept.

    Raises:
      ValueError: it is not JSON, or not an object.
      RecursionError: it is nested too deep.
    """
    found = json.loads(data, object_pairs_hook=_require_distinct, parse_constant=_refuse_constant)
    if not isinstance(found, dict):
        raise ValueError("an object is expected")
    return found


def _require_distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is repeated")
    return found


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][biuf][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,19}, )*(?:\d{1,19},?)?)\), \} *\n",
    re.DOTALL,
)
"""The one form in which `numpy.lib.format` writes the arrays of these files: numbers, C order, version 1.0."""


def _array(data: bytes) -> npt.NDArray[Any]:
    """Return an array over the bytes of its member, without a copy and without evaluating its header.

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
