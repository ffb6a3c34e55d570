# SPDX-License-Identifier: Apache-2.0
"""The launcher's process: `python -m opensandbox_server.runtimes.oci.launcher`."""

from __future__ import annotations

import os
import signal
import socket
import sys

from opensandbox_server.host.full_disk import explain
from opensandbox_server.runtimes.oci import protocol
from opensandbox_server.runtimes.oci.launcher import bundle
from opensandbox_server.runtimes.oci.launcher.instances import Config
from opensandbox_server.runtimes.oci.launcher.launcher import Launcher


def main(config: Config = bundle.config) -> None:
    """Serve on descriptor 3 until it is closed."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the server ends us by closing the socket
    os.chdir("/")
    os.closerange(4, 2**31 - 1)  # what the operator's shell has open is nobody's here
    channel = socket.socket(fileno=3)
    os.set_inheritable(3, False)
    setup, _ = protocol.receive(channel)
    launcher = Launcher(channel, protocol.Setup(**setup), config)
    try:
        launcher.open()
    except Exception as fault:  # noqa: BLE001  # the server is told
        protocol.send(channel, {"error": explain(fault)})
        launcher.close()
        sys.exit(1)
    protocol.send(channel, {"ready": True})
    try:
        launcher.serve()
    finally:
        launcher.close()


if __name__ == "__main__":
    main()
