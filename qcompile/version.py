"""The version, said once for the code; pyproject.toml agrees (a test checks)."""

__version__ = "0.2.0"
