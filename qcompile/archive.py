"""The container of plan and release files: a zip of one JSON document and NumPy arrays, versioned and hashed.

No pickle is ever read or written. The manifest lists the SHA-256 of every member, so that a damaged or edited file is
refused before anything in it is used; sizes are checked against the zip's own directory before a byte is unpacked.
Equal contents give equal bytes: members are sorted, without compression or time stamps.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.arrays import DEFAULT_MEMORY, bytes_text
from qcompile.errors import StorageError
from qcompile.files import replacing

MANIFEST = "manifest.json"
DOCUMENT = "document.json"

Arrays = Mapping[str, npt.NDArray[Any]]


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
    members = {DOCUMENT: json.dumps(document, sort_keys=True, indent=1, allow_nan=False).encode()}
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}
    manifest = {"kind": kind, "version": version, "sha256": hashes}
    members[MANIFEST] = json.dumps(manifest, sort_keys=True, indent=1).encode()
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as z:
        for name in sorted(members):
            z.writestr(zipfile.ZipInfo(name), members[name])
    return content_hash(hashes)


def content_hash(hashes: Mapping[str, str]) -> str:
    """One hash of all members' hashes."""
    return hashlib.sha256(json.dumps(dict(hashes), sort_keys=True).encode()).hexdigest()


def read(path: str | Path, kind: str, version: int) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], str]:
    """Read and verify a file.

    Returns:
      Document, arrays and content hash.

    Raises:
      StorageError: missing, not of this kind or version, damaged, or larger than memory allows.
    """
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as z:
            return _verified(z, path, kind, version)
    except FileNotFoundError:
        raise StorageError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise StorageError(f"{path} is a folder, not a {kind} file") from None
    except (zipfile.BadZipFile, EOFError, LookupError, TypeError, ValueError, OSError, RuntimeError) as e:
        if isinstance(e, StorageError):
            raise
        raise StorageError(f"{path} is not a {kind} file, or is damaged; make it again") from None


def _verified(
    z: zipfile.ZipFile, path: Path, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], str]:
    size = sum(i.file_size for i in z.infolist())
    if size > DEFAULT_MEMORY or any(i.compress_type != zipfile.ZIP_STORED for i in z.infolist()):
        raise StorageError(f"{path} unpacks to {bytes_text(size)}, which is more than can be read")
    manifest = json.loads(z.read(MANIFEST))
    found = manifest["kind"]
    if found != kind:
        raise StorageError(f"{path} is a {found} file, not a {kind} file; name a {kind} file")
    if manifest["version"] != version:
        raise StorageError(
            f"{path} has format version {manifest['version']}, this qcompile reads {version}; make it again, or "
            "install the version that wrote it"
        )
    hashes: dict[str, str] = manifest["sha256"]
    if {i.filename for i in z.infolist()} != {*hashes, MANIFEST}:
        raise StorageError(f"{path} has members that its manifest does not list; it was changed after it was written")
    arrays, document = {}, {}
    for name, expected in hashes.items():
        data = z.read(name)
        if hashlib.sha256(data).hexdigest() != expected:
            raise StorageError(
                f"{path} is damaged or was changed after it was written ({name} has the wrong hash); make it again"
            )
        if name == DOCUMENT:
            document = json.loads(data)
        else:
            arrays[name.removesuffix(".npy")] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return document, arrays, content_hash(hashes)


def kind_of(path: str | Path) -> str | None:
    """The kind that a file claims to be, unverified; None when it is not one of ours."""
    try:
        with zipfile.ZipFile(path) as z:
            return str(json.loads(z.read(MANIFEST))["kind"])
    except (zipfile.BadZipFile, LookupError, TypeError, ValueError, OSError, RuntimeError):
        return None
