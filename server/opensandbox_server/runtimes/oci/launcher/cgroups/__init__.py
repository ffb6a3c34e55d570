# SPDX-License-Identifier: Apache-2.0
"""Limits, and what is done to all processes of a sandbox at once, in both versions of cgroups."""
