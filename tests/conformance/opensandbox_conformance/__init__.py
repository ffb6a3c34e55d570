# SPDX-License-Identifier: Apache-2.0
"""What every runtime must do, asked through the API of a running server alone.

`opensandbox-conformance --domain HOST:PORT --api-key KEY` runs it. The suite deletes every sandbox
it makes and needs an image with a shell and Python.
"""

__version__ = "0.1.0"
