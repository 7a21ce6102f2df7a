"""Files are written whole or not at all."""

from __future__ import annotations

import os
import pathlib

import pytest

from qcompile.errors import StorageError
from qcompile.support.files import replacing, require_place


def test_contents_permissions_and_links(tmp_path: pathlib.Path) -> None:
    target, link = tmp_path / "x", tmp_path / "link"
    mask = os.umask(0o027)
    try:
        with replacing(target) as temporary:
            temporary.write_text("one")
    finally:
        os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o640
    link.symlink_to(target)
    target.chmod(0o604)
    with replacing(link) as temporary:
        temporary.write_text("two")
    assert link.is_symlink()
    assert target.read_text() == "two"
    assert target.stat().st_mode & 0o777 == 0o604
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "x"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("x")])
def test_a_failure_leaves_the_old_file(tmp_path: pathlib.Path, failure: BaseException) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    expected = StorageError if isinstance(failure, OSError) else type(failure)

    def write_half() -> None:
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(expected):
        write_half()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_places_that_cannot_be_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="it is a folder"):
        require_place(tmp_path)
    with pytest.raises(StorageError, match="does not exist or is not writable"):
        require_place(tmp_path / "nowhere" / "x")
    protected = tmp_path / "x"
    protected.write_text("")
    monkeypatch.setattr(os, "access", lambda path, mode: pathlib.Path(path) != protected)  # root may write anywhere
    with pytest.raises(StorageError, match="it is write-protected"):
        require_place(protected)
