# SPDX-License-Identifier: Apache-2.0
"""A program of a node, and a fault of the cluster told in one line."""

from __future__ import annotations

from dataclasses import dataclass


class ClusterError(Exception):
    """Something that stops the cluster from being what was asked for: one line, with a way on."""


@dataclass(frozen=True)
class Component:
    """One program of a node: how it is started, and what answers once it is ready."""

    name: str
    """Also names its log: `logs/<name>.log` in the node's directory."""
    arguments: tuple[str, ...]
    ready: str = ""
    """`https://…` or `http://…` that answers 200, or `unix:/run/…` that accepts; empty: at once."""
