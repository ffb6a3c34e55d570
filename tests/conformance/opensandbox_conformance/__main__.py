# SPDX-License-Identifier: Apache-2.0
"""The command `opensandbox-conformance`: the suite against a server that runs already."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from opensandbox_conformance import __version__
from opensandbox_conformance.given import Given


def parser() -> argparse.ArgumentParser:
    """Describe every flag; what is not one of them goes to pytest."""
    flags = argparse.ArgumentParser(
        prog="opensandbox-conformance",
        description="Check what every runtime must do, against a server that runs already.",
        epilog="Every other argument goes to pytest: -k pause, -x, -v, --junitxml=report.xml.",
    )
    flags.add_argument("--version", action="version", version=__version__)
    flags.add_argument("--domain", required=True, metavar="HOST:PORT", help="where it listens")
    key = os.environ.get("OPEN_SANDBOX_API_KEY", "")
    flags.add_argument("--api-key", default=key, help="default: $OPEN_SANDBOX_API_KEY")
    flags.add_argument("--protocol", choices=("http", "https"), default="http")
    flags.add_argument(
        "--image", default="host", help="an image with a shell and Python (default: host)"
    )
    return flags


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the suite and exit as pytest does."""
    options, others = parser().parse_known_args(arguments)
    given = Given(f"{options.protocol}://{options.domain}", options.api_key, options.image)
    suite = str(Path(__file__).parent)
    with tempfile.TemporaryDirectory(prefix="opensandbox-conformance-") as empty:
        # With settings of its own: those of the place it is run in must not apply.
        own = [f"--rootdir={suite}", f"--confcutdir={suite}", "-c", _settings(Path(empty))]
        status = pytest.main([*own, "-p", "no:cacheprovider", suite, *others], plugins=[given])
    sys.exit(int(status))


def _settings(directory: Path) -> str:
    file = directory / "pytest.ini"
    file.write_text("[pytest]\naddopts = --import-mode=importlib -ra\n")
    return str(file)


if __name__ == "__main__":
    main()
