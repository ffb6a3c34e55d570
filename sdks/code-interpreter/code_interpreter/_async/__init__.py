# SPDX-License-Identifier: Apache-2.0
"""The interpreter for callers that await; the other half is made from it."""
