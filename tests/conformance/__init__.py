# SPDX-License-Identifier: Apache-2.0
"""What every runtime must do, asked through the API alone.

Against a server that runs already: set OPENSANDBOX_CONFORMANCE_URL, OPENSANDBOX_CONFORMANCE_KEY and
OPENSANDBOX_CONFORMANCE_IMAGE. Without them the suite starts a server for each runtime of its own.
"""
