"""OpenDP, loaded when it is first needed: adaptive runs and ``noise="opendp"`` do, a usual batch does not."""

from __future__ import annotations

from typing import Any

from qcompile.errors import OptionError


def load_opendp() -> Any:
    """Return OpenDP's prelude with the features that the mechanisms here are made of.

    Raises:
      OptionError: it is not installed; the message has the command that installs it.
    """
    try:
        import opendp.prelude as dp
    except ImportError:
        raise OptionError(
            "adaptive runs and noise='opendp' need OpenDP, which is not installed; install it with: "
            "pip install 'qcompile[adaptive]'"
        ) from None
    dp.enable_features("contrib")
    return dp
