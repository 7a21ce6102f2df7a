"""Commands that refuse an option with two values, where the parser would silently take the last one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from qcompile.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])


class SingleValueCommand(TyperCommand):
    """A command whose options take one value each, except those that are declared as lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the command.

        Raises:
          OptionError: an option that takes one value is there more than once.
        """
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(order).items():
            if times > 1 and takes_one_value(parameter):
                raise OptionError(
                    f"{' or '.join(parameter.opts)} is given {times} times, but takes one value; keep one of them"
                )
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """A group of commands, each a `SingleValueCommand`."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Return the decorator that makes a function a command of the group; see `typer.Typer.command`."""
        return super().command(name, **({"cls": SingleValueCommand} | options))


def takes_one_value(parameter: Any) -> bool:
    """True for an option with one value; flags may be repeated, as they cannot contradict themselves."""
    is_option = parameter.param_type_name == "option"
    return is_option and not (parameter.multiple or parameter.count or parameter.is_flag)
