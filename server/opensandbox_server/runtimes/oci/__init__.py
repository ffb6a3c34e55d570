# SPDX-License-Identifier: Apache-2.0
"""The embedded runtime: OCI bundles run by a program of the host, with no daemon.

The server keeps `runtime.OCIRuntime`; everything that blocks, mounts or spawns is done by one small
process beside it, `launcher`, in a mount namespace of its own. This file imports nothing, so that
the launcher stays small.
"""
