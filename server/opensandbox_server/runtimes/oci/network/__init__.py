# SPDX-License-Identifier: Apache-2.0
"""Addresses, links and packet rules of sandboxes."""
