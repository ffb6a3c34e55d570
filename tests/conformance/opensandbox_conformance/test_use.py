# SPDX-License-Identifier: Apache-2.0
"""Commands, files and ports, through the front door."""

from __future__ import annotations

import json

import httpx

from opensandbox_conformance.api import Api, Box, eventually

SERVE = """
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_execd_answers_as_soon_as_create_does(box: Box) -> None:
    assert box.execd("GET", "/ping").status_code == 200


def test_execd_needs_its_token_or_a_key(api: Api, box: Box) -> None:
    way = box.endpoint(44772)
    assert httpx.get(f"http://{way['endpoint']}/ping").status_code == 401
    assert httpx.get(f"http://{way['endpoint']}/ping", headers=way["headers"]).status_code == 200
    through = box.endpoint(44772, use_server_proxy=True)["endpoint"]
    assert api.http.get(f"http://{through}/ping").status_code == 200


def test_a_command_runs_with_the_sandboxs_environment(api: Api) -> None:
    box = api.create(env={"GREETING": "hello there"})
    output = box.run('echo "$GREETING"; echo oops >&2; exit 3')
    assert (output.stdout, output.stderr, output.exit_code) == ("hello there", "oops", 3)
    assert box.run("echo $OPENSANDBOX_ID").stdout == box.id


def test_a_file_is_written_and_read(box: Box) -> None:
    place = box.run("mktemp -d").stdout
    metadata = json.dumps({"path": f"{place}/a/file.bin", "mode": 644})
    content = bytes(range(256)) * 1024
    parts = [
        ("metadata", ("metadata", metadata, "application/json")),
        ("file", ("file.bin", content, "application/octet-stream")),
    ]
    assert box.execd("POST", "/files/upload", files=parts).status_code == 200
    answer = box.execd("GET", "/files/download", params={"path": f"{place}/a/file.bin"})
    assert answer.content == content
    assert box.run(f"wc -c <{place}/a/file.bin").stdout.strip() == str(len(content))


def test_a_server_on_loopback_is_reached_by_its_port(box: Box) -> None:
    place = box.run("mktemp -d").stdout
    box.run(f"echo from inside >{place}/page.txt")
    argv = ["python3", "-c", SERVE]
    started = box.execd("POST", "/command", json={"argv": argv, "cwd": place, "background": True})
    command_id = json.loads(started.text.split("\n\n")[0])["text"]

    def log() -> str:
        return box.execd("GET", f"/command/{command_id}/logs").text

    eventually(lambda: log().partition("\n")[0].isdigit())
    port = int(log().partition("\n")[0])
    answer = box.reach("GET", port, "/page.txt")
    assert (answer.status_code, answer.text) == (200, "from inside\n")


def test_secure_access_closes_every_port_to_who_has_no_token(api: Api) -> None:
    box = api.create(secureAccess=True)
    way = box.endpoint(9)
    assert "OpenSandbox-Secure-Access" in way["headers"]
    refused = httpx.get(f"http://{way['endpoint']}/")
    assert (refused.status_code, refused.json()["code"]) == (
        401,
        "MISSING_OR_INVALID_SECURE_ACCESS",
    )
    let_in = httpx.get(f"http://{way['endpoint']}/", headers=way["headers"])
    assert let_in.status_code == 502  # nothing listens there


def test_a_signed_route_is_enough(box: Box) -> None:
    way = box.endpoint(44772, expires=4102444800)
    assert "headers" not in way
    assert httpx.get(f"http://{way['endpoint']}/ping").status_code == 200
    forged = way["endpoint"][:-5] + "aaaaa"
    assert httpx.get(f"http://{forged}/ping").status_code == 401


def test_without_egress_its_port_says_so(box: Box) -> None:
    assert box.reach("GET", 18080, "/policy").status_code in {401, 503}


def test_an_entrypoint_that_ends_is_shown(api: Api) -> None:
    done = api.create(entrypoint=["sh", "-c", "sleep 0.3"])
    failed = api.create(entrypoint=["sh", "-c", "sleep 0.3; exit 5"])
    eventually(lambda: done.state == "Terminated")
    eventually(lambda: failed.state == "Failed")
    assert api.http.post(f"{done.path}/pause").status_code == 409


def test_what_the_entrypoint_wrote_is_in_the_logs(api: Api) -> None:
    box = api.create(
        entrypoint=["sh", "-c", "echo written by the entrypoint; exec tail -f /dev/null"]
    )
    path = f"{box.path}/diagnostics/logs?scope=container"
    eventually(lambda: "written by the entrypoint" in api.http.get(path).json()["content"])
