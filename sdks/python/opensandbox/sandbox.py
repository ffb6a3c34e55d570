# SPDX-License-Identifier: Apache-2.0
"""Where programs written for the published client look for this name."""

from opensandbox._async.sandbox import Sandbox

__all__ = ["Sandbox"]
