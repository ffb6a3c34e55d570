# SPDX-License-Identifier: Apache-2.0
"""Python in sandboxes of the image `host`: the pack, and that nobody can change it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from opensandbox_server.runtimes.oci.image import PACK
from opensandbox_server.runtimes.oci.images.interpreter import own_interpreter
from opensandbox_server.runtimes.oci.images.pack import plan_pack
from tests.harness.runtime import Home, missing
from tests.harness.server import Serving, serving
from tests.harness.wait import PATIENCE

CHANGES = (
    f"touch {PACK}/new",
    f"rm {PACK}/bin/python3",
    f"echo 1 > {PACK}/pack.json",
    f"chmod 777 {PACK}/bin",
    f"chown 0:0 {PACK}",
    f"mv {PACK} /opt/opensandbox/mine",
    f"ln -sf /bin/sh {PACK}/bin/python3",
    f"mount -o remount,rw {PACK}",
    f"umount {PACK}",
)


def test_python_of_the_pack_comes_first_and_has_ipython(home: Home) -> None:
    box = home.start()
    assert box.sh("command -v python3 python ipython").output.split() == [
        f"{PACK}/bin/{name}" for name in ("python3", "python", "ipython")
    ]
    code = "import IPython, sys; print('Python', sys.version.split()[0], 'with IPython', "
    code += "IPython.__version__)"
    assert box.sh(f'env -i {PACK}/bin/python3 -c "{code}"').output == str(plan_pack())
    assert box.sh("ipython --no-banner -c '6 * 7'").output.split()[-1] == "42"


def test_the_common_modules_work_and_an_environment_can_be_made_on_it(home: Home) -> None:
    box = home.start()
    modules = "ssl, sqlite3, ctypes, zlib, lzma, bz2, hashlib, uuid, multiprocessing, asyncio"
    assert box.sh(f'python3 -c "import {modules}"').output == ""
    made = box.sh(
        "python3 -m venv --without-pip /workspace/env"
        ' && /workspace/env/bin/python -c "import sys; print(sys.prefix)"'
    )
    assert made.output == "/workspace/env"


def test_another_user_of_the_sandbox_can_run_it(home: Home) -> None:
    ran = home.start().sh("setpriv --reuid 1000 --clear-groups python3 -c 'import IPython'")
    assert (ran.status, ran.output) == (0, "")


def test_neither_packages_nor_places_of_the_host_show(home: Home) -> None:
    box = home.start()
    seen = box.sh("python3 -c 'import sys; print(*sys.path)'; cat /proc/self/mountinfo").output
    assert "dist-packages" not in seen
    assert "fastapi" not in box.sh(f"ls {PACK}/lib/*/site-packages").output
    image = home.run(home.runtime.images.resolve("host"))
    for place in (image.pack, str(home.data_dir), str(Path(image.pack).parent)):
        assert place not in seen


@pytest.mark.parametrize("is_readonly", [False, True])
def test_root_of_a_sandbox_cannot_change_it(home: Home, is_readonly: bool) -> None:
    box = home.start(is_readonly=is_readonly)
    before = box.sh(f"find {PACK} -ls | sort | sha256sum").output
    for change in CHANGES:
        assert box.sh(change).status != 0, change
    assert box.sh(f"find {PACK} -ls | sort | sha256sum").output == before
    assert box.sh("python3 -c 'import IPython'").status == 0


def test_an_image_of_ones_own_has_no_pack(home: Home, tmp_path: Path) -> None:
    from opensandbox_server.runtimes.oci.images import import_image

    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed; apt-get install busybox-static")
    archive = tmp_path / "image.tar"
    (tmp_path / "bin").mkdir()
    for name in ("sh", "sleep", "test"):
        shutil.copy(busybox, tmp_path / "bin" / name)
    subprocess.run(["tar", "-cf", archive, "-C", tmp_path, "bin"], check=True)
    home.run(import_image(home.runtime.images, "small", archive))
    assert home.start("small").sh(f"test -e {PACK}").status != 0


def test_an_image_that_was_removed_is_made_again_with_its_pack(home: Home) -> None:
    first = home.start()
    home.run(home.runtime.images.remove("host"))
    assert home.start().sh("python3 -c 'import IPython'").status == 0
    assert first.sh("python3 -c 'import IPython'").status == 0


def test_python_runs_where_the_host_has_none(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(f"the embedded runtime does not work here: {reason}")
    if own_interpreter().is_visible:
        pytest.skip("the Python of these tests is the host's own; without it there are no tests")
    # In a mount namespace whose /usr can be written: the launcher, and so sandboxes, see the same.
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir=/usr,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    remove = f"mount -t overlay -o {layers} none /usr && rm /usr/bin/python3*"
    around = ["unshare", "--mount", "sh", "-c", f'{remove} && exec "$@"', "sh"]
    flags = ("--runtime", "oci", "--stop-sandboxes")
    with serving(tmp_path / "data", *flags, around=around) as server:
        assert python_in_a_sandbox(server) == f"{PACK}/bin/python3"


def python_in_a_sandbox(server: Serving) -> str:
    """Create a sandbox; return which Python it runs, having seen that /usr/bin's is none."""
    with server.client() as client:
        client.timeout = httpx.Timeout(PATIENCE)
        body = {"image": {"uri": "host"}, "entrypoint": ["sleep", "infinity"], "timeout": 300}
        made = client.post("/sandboxes", json=body | {"resourceLimits": {}})
        assert made.status_code == 202, made.text
        way = made.json()["endpoints"]["44772"]
        code = "import IPython, sys; print(sys.executable)"
        ran = httpx.post(
            f"http://{way['endpoint']}/command",
            headers=way["headers"],
            json={"command": f'! /usr/bin/python3 -c "" && exec python3 -c "{code}"'},
            timeout=PATIENCE,
        )
        assert "/python3" in ran.text, ran.text
        return next(line for line in ran.text.split('"') if line.endswith("/python3"))
