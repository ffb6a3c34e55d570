# SPDX-License-Identifier: Apache-2.0
"""Uploads as the published clients send them."""

import json

import httpx

BOUNDARY = "test-boundary"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def part(name: str, content: bytes, filename: str | None = "f", kind: str = "text/plain") -> bytes:
    """Encode one part."""
    disposition = f'form-data; name="{name}"'
    if filename is not None:
        disposition += f'; filename="{filename}"'
    head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\nContent-Type: {kind}\r\n\r\n"
    return head.encode() + content + b"\r\n"


def metadata(path: str, **fields: object) -> bytes:
    """Encode a metadata part."""
    body = json.dumps({"path": path, "owner": None, "group": None, "mode": 644, **fields})
    return part("metadata", body.encode(), "metadata", "application/json")


END = f"--{BOUNDARY}--\r\n".encode()


def send(client: httpx.Client, *parts: bytes, prefix: str = "", end: bytes = END) -> httpx.Response:
    """Send parts in one body."""
    body = b"".join(parts) + end
    headers = {"content-type": CONTENT_TYPE}
    return client.post(f"{prefix}/files/upload", content=body, headers=headers)


def write(
    client: httpx.Client, path: str, content: bytes, prefix: str = "", **fields: object
) -> None:
    """Upload one file."""
    answer = send(client, metadata(path, **fields), part("file", content), prefix=prefix)
    assert answer.status_code == 200, answer.text
