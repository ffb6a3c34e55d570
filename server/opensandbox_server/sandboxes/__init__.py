# SPDX-License-Identifier: Apache-2.0
"""The rules that hold for every runtime. Nothing here knows HTTP, nor a runtime by its name."""
