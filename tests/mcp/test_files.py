# SPDX-License-Identifier: Apache-2.0
"""Files by tools: text, pictures, bytes, and resources."""

import base64
import hashlib
import os
import struct
import zlib

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import ImageContent

from tests.mcp.agent import Agent


def png() -> bytes:
    """Make a picture of one red point."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_a_file_is_written_read_found_moved_and_deleted(
    agent: Agent, sandbox_id: str, work: str
) -> None:
    here = {"sandbox_id": sandbox_id}
    path = f"{work}/deep/note.txt"
    assert agent.do("file_write", **here, path=path, content="grüße\n", mode=640) == {
        "status": "written"
    }
    assert agent.do("file_read", **here, path=path) == {
        "path": path,
        "content": "grüße\n",
        "note": None,
    }
    part = agent.do("file_read", **here, path=path, range_header="bytes=0-1")
    assert part["content"] == "gr"
    (found,) = agent.do("file_search", **here, path=work, pattern="*.txt")
    assert (found["path"], found["mode"], found["size"]) == (path, 640, 8)
    (info,) = agent.do("file_info", **here, paths=[path])
    assert info["type"] == "file"
    moves = [{"source": path, "destination": f"{work}/moved"}]
    assert agent.do("file_move", **here, entries=moves) == {"status": "moved"}
    changes = [{"path": f"{work}/moved", "old_content": "ü", "new_content": "ue"}]
    replaced = agent.do("file_replace_contents", **here, entries=changes)
    assert replaced == [{"path": f"{work}/moved", "replaced_count": 1}]
    wanted = [{"path": f"{work}/moved", "mode": 600}]
    assert agent.do("file_set_permissions", **here, entries=wanted) == {"status": "set"}
    assert agent.do("file_delete", **here, paths=[f"{work}/moved"]) == {"status": "deleted"}
    assert "FILE_NOT_FOUND" in agent.refusal("file_read", **here, path=f"{work}/moved")


def test_directories_are_made_listed_and_deleted(agent: Agent, sandbox_id: str, work: str) -> None:
    here = {"sandbox_id": sandbox_id}
    entries = [{"path": f"{work}/a/b", "mode": 700}, {"path": f"{work}/c"}]
    assert agent.do("file_create_directories", **here, entries=entries) == {"status": "created"}
    listed = agent.do("file_list", **here, path=work)
    assert {entry["path"] for entry in listed["entries"]} == {f"{work}/a", f"{work}/c"}
    assert {entry["type"] for entry in listed["entries"]} == {"directory"}
    assert listed["note"] is None
    assert agent.do("file_delete_directories", **here, paths=[f"{work}/a"]) == {"status": "deleted"}
    assert len(agent.do("file_list", **here, path=work)["entries"]) == 1


def test_a_large_directory_is_listed_in_part(agent: Agent, sandbox_id: str, work: str) -> None:
    agent.do("command_run", sandbox_id=sandbox_id, command=f"cd {work}; touch $(seq 600)")
    listed = agent.do("file_list", sandbox_id=sandbox_id, path=work)
    assert len(listed["entries"]) == 500
    assert "600 entries" in listed["note"]


def test_a_long_file_is_read_a_part_at_a_time(agent: Agent, sandbox_id: str, work: str) -> None:
    path = f"{work}/long"
    content = "".join(f"{number} ä\n" for number in range(9000))
    agent.do("file_write", sandbox_id=sandbox_id, path=path, content=content)
    whole = ""
    wanted: dict[str, str] = {}
    while True:
        part = agent.do("file_read", sandbox_id=sandbox_id, path=path, **wanted)
        whole += part["content"]
        if part["note"] is None:
            break
        wanted = {"range_header": part["note"].split('"')[1]}
    assert whole == content


def test_another_encoding_is_read_and_written(agent: Agent, sandbox_id: str, work: str) -> None:
    path = f"{work}/latin"
    agent.do("file_write", sandbox_id=sandbox_id, path=path, content="ü", encoding="latin-1")
    read = agent.do("file_read", sandbox_id=sandbox_id, path=path, encoding="latin-1")
    assert read["content"] == "ü"
    assert "file_download" in agent.refusal("file_read", sandbox_id=sandbox_id, path=path)
    unknown = agent.refusal("file_read", sandbox_id=sandbox_id, path=path, encoding="klingon")
    assert "there is no encoding klingon" in unknown


def test_bytes_go_in_and_come_out(agent: Agent, sandbox_id: str, work: str) -> None:
    path, content = f"{work}/bytes", os.urandom(60_000)
    encoded = base64.b64encode(content).decode()
    agent.do("file_upload", sandbox_id=sandbox_id, path=path, base64=encoded, mode=600)
    whole, offset = b"", 0
    while True:
        part = agent.do("file_download", sandbox_id=sandbox_id, path=path, offset=offset)
        whole, offset = whole + base64.b64decode(part["base64"]), part["next_offset"]
        if offset == part["size"]:
            break
    assert whole == content
    wanted = {path: hashlib.sha256(content).hexdigest()}
    assert agent.do("file_checksum", sandbox_id=sandbox_id, paths=[path]) == wanted
    after = agent.do("file_download", sandbox_id=sandbox_id, path=path, offset=offset)
    assert (after["base64"], after["next_offset"]) == ("", offset)
    refused = agent.refusal("file_upload", sandbox_id=sandbox_id, path=path, base64="%%%")
    assert "base64 cannot be read" in refused


def test_a_picture_is_shown_as_a_picture(agent: Agent, sandbox_id: str, work: str) -> None:
    path, picture = f"{work}/point.png", png()
    encoded = base64.b64encode(picture).decode()
    agent.do("file_upload", sandbox_id=sandbox_id, path=path, base64=encoded)
    shown = agent.call("file_read_image", sandbox_id=sandbox_id, path=path)
    (content,) = shown.content
    assert isinstance(content, ImageContent)
    assert (content.mime_type, base64.b64decode(content.data)) == ("image/png", picture)
    assert "file_read_image" in agent.refusal("file_read", sandbox_id=sandbox_id, path=path)
    agent.do("file_write", sandbox_id=sandbox_id, path=path, content="no picture")
    assert "try file_read" in agent.refusal("file_read_image", sandbox_id=sandbox_id, path=path)


def test_files_and_logs_are_resources(agent: Agent, sandbox_id: str, work: str) -> None:
    agent.do("file_write", sandbox_id=sandbox_id, path=f"{work}/a b.json", content='{"x": 1}')
    text = agent.read(f"sandbox://{sandbox_id}/files{work}/a%20b.json")
    assert (text.text, text.mime_type) == ('{"x": 1}', "application/json")
    encoded = base64.b64encode(png()).decode()
    agent.do("file_upload", sandbox_id=sandbox_id, path=f"{work}/point", base64=encoded)
    picture = agent.read(f"sandbox://{sandbox_id}/files{work}/point")
    assert (picture.blob, picture.mime_type) == (encoded, "image/png")
    done = agent.do("command_run", sandbox_id=sandbox_id, command="echo out; echo err >&2")
    output = agent.read(f"sandbox://{sandbox_id}/commands/{done['id']}")
    assert output.text == "out\nerr\n"
    assert agent.read(f"sandbox://{sandbox_id}/logs").text == ""  # its entrypoint says nothing
    assert agent.read(f"sandbox://{sandbox_id}/events").mime_type == "text/plain"


def test_resources_are_listed(agent: Agent, sandbox_id: str) -> None:
    resources = agent.portal.call(agent.client.list_resources).resources
    assert f"sandbox://{sandbox_id}/logs" in {str(resource.uri) for resource in resources}
    templates = agent.portal.call(agent.client.list_resource_templates).resource_templates
    assert "sandbox://{sandbox_id}/files/{+path}" in {one.uri_template for one in templates}


@pytest.mark.parametrize("rest", ["files/no/such/file", "commands/unknown", "files/../etc/passwd"])
def test_a_missing_resource_is_refused_in_one_line(
    agent: Agent, sandbox_id: str, rest: str
) -> None:
    with pytest.raises(MCPError) as refused:
        agent.read(f"sandbox://{sandbox_id}/{rest}")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_too_large_is_no_resource(agent: Agent, sandbox_id: str, work: str) -> None:
    command = f"head -c 1100000 /dev/zero > {work}/zeros"
    agent.do("command_run", sandbox_id=sandbox_id, command=command)
    with pytest.raises(MCPError, match="file_read"):
        agent.read(f"sandbox://{sandbox_id}/files{work}/zeros")
