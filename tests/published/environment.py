# SPDX-License-Identifier: Apache-2.0
"""The published client's own virtual environment."""

from pathlib import Path

from tests.environments import python_with


def published_python() -> Path:
    """Return the Python that has the published client."""
    return python_with(Path(__file__).resolve().parent / "requirements.txt")
