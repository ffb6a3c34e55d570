# SPDX-License-Identifier: Apache-2.0
"""Writes what is in this image as a CycloneDX document: what is found, not what was wanted."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TARGET = Path("/usr/share/opensandbox/sbom.cdx.json")
VERSIONS = Path("/opt/opensandbox/versions")
Component = dict[str, Any]


def main() -> None:
    """Write the document."""
    found = [*debian_packages(), *python_distributions(), *node_programs(), *go_toolchains()]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": operating_system(),
        },
        "components": sorted(found, key=lambda component: str(component["bom-ref"])),
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{TARGET}: {len(found)} components")


def operating_system() -> Component:
    """Describe the distribution."""
    said = platform.freedesktop_os_release()
    version = said.get("VERSION_ID", "")
    return {"type": "operating-system", "name": said["ID"], "version": version}


def debian_packages() -> Iterator[Component]:
    """Find what dpkg has installed."""
    form = "${db:Status-Status}\t${binary:Package}\t${Version}\t${Architecture}\n"
    for line in said_by("dpkg-query", "--show", f"--showformat={form}").splitlines():
        status, package, version, architecture = line.split("\t")
        if status == "installed":
            name = package.partition(":")[0]
            purl = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
            yield component("library", name, version, purl)


def python_distributions() -> Iterator[Component]:
    """Find the distributions of every Python; several Pythons may have the same one."""
    found = {}
    for place in VERSIONS.glob("python/[0-9]*/lib/python3*/site-packages"):
        for distribution in importlib.metadata.distributions(path=[str(place)]):
            name, version = distribution.metadata["Name"], distribution.version
            purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
            found[purl] = component("library", name, version, purl)
    yield from found.values()


def node_programs() -> Iterator[Component]:
    """Find Node, and the npm beside it."""
    for home in VERSIONS.glob("node/[0-9]*"):
        version = said_by(f"{home}/bin/node", "--version").strip().removeprefix("v")
        yield component("application", "node", version, f"pkg:generic/node@{version}")
        npm = json.loads((home / "lib/node_modules/npm/package.json").read_text())["version"]
        yield component("application", "npm", npm, f"pkg:npm/npm@{npm}")


def go_toolchains() -> Iterator[Component]:
    """Find Go with its standard library."""
    for home in VERSIONS.glob("go/[0-9]*"):
        version = (home / "VERSION").read_text().split()[0].removeprefix("go")
        yield component("application", "go", version, f"pkg:generic/go@{version}")


def component(kind: str, name: str, version: str, purl: str) -> Component:
    """Describe one thing; the package URL says what it is everywhere."""
    return {"type": kind, "name": name, "version": version, "purl": purl, "bom-ref": purl}


def said_by(*command: str) -> str:
    """Run a program and return its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
