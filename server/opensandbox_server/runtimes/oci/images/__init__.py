# SPDX-License-Identifier: Apache-2.0
"""Images: what the root of a sandbox is made of. Kept unpacked below the data directory."""

from opensandbox_server.runtimes.oci.image import Image
from opensandbox_server.runtimes.oci.images.bounds import BadArchive
from opensandbox_server.runtimes.oci.images.build import build_image
from opensandbox_server.runtimes.oci.images.fetch import FetchFailed, import_image
from opensandbox_server.runtimes.oci.images.recipe import BadRecipe
from opensandbox_server.runtimes.oci.images.store import HOST_IMAGE, ImageStore

__all__ = [
    "HOST_IMAGE",
    "BadArchive",
    "BadRecipe",
    "FetchFailed",
    "Image",
    "ImageStore",
    "build_image",
    "import_image",
]
