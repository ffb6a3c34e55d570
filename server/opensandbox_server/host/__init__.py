# SPDX-License-Identifier: Apache-2.0
"""What the machine gives: directories, programs, processes, sockets, user ids, disk space."""
