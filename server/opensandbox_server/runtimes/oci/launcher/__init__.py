# SPDX-License-Identifier: Apache-2.0
"""All that runs in the launcher, a process of its own: it is root, it blocks, and it forks."""
