# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the ingress program: speaks its control channel and serves nothing.

Writes every message it gets to a file, one a line, and does what the id of a route tells it to.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
from pathlib import Path


def main() -> None:
    """Answer until the channel closes."""
    flags = argparse.ArgumentParser()
    for name in ("--listen", "--api", "--drop"):
        flags.add_argument(name)
    flags.add_argument("--control-fd", type=int)
    control = socket.socket(fileno=flags.parse_args().control_fd)
    path = Path(sys.argv[0] + ".heard")
    has_died = path.exists() and '"dies"' in path.read_text()
    with path.open("a") as heard, control.makefile("r") as lines:
        for line in lines:
            heard.write(line)
            heard.flush()
            message = json.loads(line)
            route = message.get("route", {}).get("id", "")
            if route == "dies" and not has_died:
                sys.exit(3)
            if route == "busy":
                control.sendall(b'{"activity":{"busy":123}}\n')
            answer = {"ack": message["seq"]}
            if route == "refused":
                answer["error"] = "not this one"
            control.sendall(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
