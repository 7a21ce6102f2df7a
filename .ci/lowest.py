"""Print the lowest allowed version of every dependency of `pyproject.toml`, as constraints for pip."""

from __future__ import annotations

import pathlib
import re
import tomllib

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,]+\])?>=(?P<version>[\d.]+)")

project = tomllib.loads(pathlib.Path(__file__).parents[1].joinpath("pyproject.toml").read_text())["project"]
for requirement in [*project["dependencies"], *project["optional-dependencies"]["examples"]]:
    match = REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound, or more than that")
    print(f"{match['name']}=={match['version']}")
