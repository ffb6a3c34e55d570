# SPDX-License-Identifier: Apache-2.0
"""Makes the Python of the image `host` where every server of a machine looks for it."""

from pathlib import Path

from opensandbox_server.runtimes.oci.images.pack import place_pack, plan_pack
from opensandbox_server.runtimes.oci.options import read_options

CACHE = Path(read_options({}).cache_dir)

if __name__ == "__main__":
    place_pack(plan_pack(), (CACHE,), CACHE / "images")
