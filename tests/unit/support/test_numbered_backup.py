"""A new file never takes the place of an older one, whoever writes at the same time, and whatever dies."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
from typing import Any

import pytest

from qcompile.errors import StorageError
from qcompile.support import numbered_backup as keeping
from qcompile.support.numbered_backup import keep_aside, pending


def publish(path: pathlib.Path, text: str) -> None:
    with pending(path) as file:
        file.hidden.write_text(text)
        file.publish()


def contents(folder: pathlib.Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in sorted(folder.iterdir())}


def test_older_files_get_numbers(tmp_path: pathlib.Path) -> None:
    for text in ("first", "second", "third"):
        publish(tmp_path / "x", text)
    assert contents(tmp_path) == {"x": "third", "x.1": "first", "x.2": "second"}
    (tmp_path / "x.1").unlink()
    publish(tmp_path / "x", "fourth")
    assert contents(tmp_path) == {"x": "fourth", "x.1": "third", "x.2": "second"}


def test_what_is_not_published_leaves_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").write_text("old")
    with pending(tmp_path / "x") as file:
        file.hidden.write_text("new")
    assert contents(tmp_path) == {"x": "old"}


def test_writers_at_once_lose_nothing(tmp_path: pathlib.Path) -> None:
    barrier = threading.Barrier(8)

    def write(i: int) -> None:
        barrier.wait()
        for k in range(6):
            publish(tmp_path / "x", f"{i} {k}")

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    found = contents(tmp_path)
    assert set(found.values()) == {f"{i} {k}" for i in range(8) for k in range(6)}
    assert not [name for name in found if name.startswith(".")]


def test_a_file_that_comes_in_between_is_kept_too(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    original = os.replace

    def late(source: Any, destination: Any) -> None:
        target.unlink()
        target.write_text("from another run")
        monkeypatch.setattr(os, "replace", original)
        original(source, destination)

    monkeypatch.setattr(os, "replace", late)
    assert keep_aside(target) == tmp_path / "x.1"
    assert contents(tmp_path) == {"x.1": "old", "x.2": "from another run"}


def test_where_files_have_one_name_only(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuses)
    for text in ("first", "second", "third"):
        publish(tmp_path / "x", text)
    assert contents(tmp_path) == {"x": "third", "x.1": "first", "x.2": "second"}


def test_a_disk_that_refuses_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(keeping, "finish_file", full)
    with pytest.raises(StorageError, match=r"No space left on device; everything is in .*\.part"):
        publish(tmp_path / "x", "new")
    assert list(contents(tmp_path).values()) == ["new"]


def test_what_another_run_left_is_not_lost_with_the_disk_full(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    replace, link = os.replace, os.link

    def late(source: Any, destination: Any) -> None:
        target.unlink()
        target.write_text("from another run")
        replace(source, destination)
        monkeypatch.setattr(os, "link", full)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", late)
    with pytest.raises(OSError, match="No space left"):
        keep_aside(target)
    monkeypatch.setattr(os, "link", link)
    assert sorted(contents(tmp_path).values()) == ["from another run", "old"]


@pytest.mark.parametrize("name", ["y" * 241, "z" * 300, "é" * 121])
def test_names_without_room_for_a_number(name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(StorageError, match="cannot write"), pending(tmp_path / name):
        pass
    publish(tmp_path / ("y" * 240), "fits")
    publish(tmp_path / ("y" * 240), "fits again")
