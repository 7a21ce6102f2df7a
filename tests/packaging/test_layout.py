"""One import root from three top-level folders, and every package declared."""

from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAPPED = {"qcompile": ROOT / "qcompile", "qcompile.grammar": ROOT / "grammar", "qcompile.solvers": ROOT / "solvers"}


def packages_on_disk() -> set[str]:
    found: set[str] = set()
    for prefix, folder in MAPPED.items():
        for init in folder.rglob("__init__.py"):  # rglob does not follow links
            found.add(".".join((prefix, *init.parent.relative_to(folder).parts)))
    return found


def test_every_package_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert set(declared) == packages_on_disk()


@pytest.mark.parametrize("name", ["grammar", "solvers"])
def test_development_link(name: str) -> None:
    assert (ROOT / "qcompile" / name).resolve() == ROOT / name, (
        "git config core.symlinks true; git checkout -- qcompile"
    )


def test_only_one_import_root() -> None:
    roots = {t for t, d in importlib.metadata.packages_distributions().items() if "qcompile" in d}
    assert {r for r in roots if not r.startswith("__editable__")} == {"qcompile"}


def test_version_is_said_once() -> None:
    import qcompile

    assert importlib.metadata.version("qcompile") == qcompile.__version__


def test_public_names_resolve() -> None:
    import qcompile

    for name in qcompile.__all__:
        assert getattr(qcompile, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = qcompile.nonsense


def test_imports_go_one_way() -> None:
    command = pathlib.Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
