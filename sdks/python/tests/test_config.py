# SPDX-License-Identifier: Apache-2.0
"""Where the server is, and who is told the key."""

import socket
from datetime import timedelta

import pytest
from pydantic import ValidationError

from opensandbox._client_address import CLIENT_IP_HEADER, client_address
from opensandbox._endpoints import EndpointCache
from opensandbox.config import API_KEY_HEADER, ConnectionConfig
from opensandbox.models.endpoints import SandboxEndpoint

ENDPOINT = SandboxEndpoint(endpoint="h:1/p/", headers={"X-Token": "t"})


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPEN_SANDBOX_API_KEY", raising=False)
    monkeypatch.delenv("OPEN_SANDBOX_DOMAIN", raising=False)


@pytest.mark.parametrize(
    ("domain", "protocol", "expected"),
    [
        (None, "http", "http://localhost:8080/v1"),
        ("sandbox.example", "https", "https://sandbox.example/v1"),
        ("https://sandbox.example", "http", "https://sandbox.example/v1"),
        ("http://h:1/prefix/", "http", "http://h:1/prefix/v1"),
        ("http://h:1/v1", "http", "http://h:1/v1"),
    ],
)
def test_the_address_is_worked_out(domain: str | None, protocol: str, expected: str) -> None:
    config = ConnectionConfig.model_validate({"domain": domain, "protocol": protocol})
    assert config.get_base_url() == expected


def test_the_environment_fills_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_SANDBOX_API_KEY", "k")
    monkeypatch.setenv("OPEN_SANDBOX_DOMAIN", "h:1")
    assert ConnectionConfig().lifecycle.base_url == "http://h:1/v1"
    assert ConnectionConfig().lifecycle.headers[API_KEY_HEADER] == "k"
    assert ConnectionConfig(api_key="mine").get_api_key() == "mine"


def test_without_a_key_no_key_is_sent() -> None:
    assert API_KEY_HEADER not in ConnectionConfig().lifecycle.headers


def test_the_key_goes_into_a_sandbox_only_through_the_server() -> None:
    direct = ConnectionConfig(api_key="k").sandbox(ENDPOINT)
    proxied = ConnectionConfig(api_key="k", use_server_proxy=True).sandbox(ENDPOINT)
    assert direct.base_url == "http://h:1/p"
    assert direct.headers["X-Token"] == "t"
    assert API_KEY_HEADER not in direct.headers
    assert proxied.headers[API_KEY_HEADER] == "k"


def test_the_key_is_not_shown() -> None:
    assert "hidden" not in repr(ConnectionConfig(api_key="hidden"))


@pytest.mark.parametrize("wrong", [{"protocol": "ftp"}, {"request_timeout": timedelta(0)}])
def test_a_connection_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ConnectionConfig.model_validate(wrong)


def test_the_server_is_told_an_address_of_this_machine_and_a_sandbox_is_not() -> None:
    address = client_address()
    headers = ConnectionConfig().lifecycle.headers
    assert headers.get(CLIENT_IP_HEADER) == address
    assert CLIENT_IP_HEADER not in ConnectionConfig().sandbox(ENDPOINT).headers
    if address is not None:  # else no way leads out of this machine
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            here.bind((address, 0))  # refused unless it is ours


def test_a_caller_may_say_another_address() -> None:
    config = ConnectionConfig(headers={CLIENT_IP_HEADER: "192.0.2.7"})
    assert config.lifecycle.headers[CLIENT_IP_HEADER] == "192.0.2.7"


def test_endpoints_are_forgotten_in_time_and_number() -> None:
    clock = [0.0]
    config = ConnectionConfig(endpoint_cache_ttl=timedelta(seconds=10), endpoint_cache_size=2)
    cache = EndpointCache(config, lambda: clock[0])
    for port in (1, 2):
        cache.put(port, ENDPOINT)
    assert cache.get(1) == ENDPOINT
    cache.put(3, ENDPOINT)
    assert [cache.get(port) is not None for port in (1, 2, 3)] == [True, False, True]
    clock[0] = 10.0
    assert cache.get(1) is None


def test_a_disabled_cache_remembers_nothing() -> None:
    cache = EndpointCache(ConnectionConfig(endpoint_cache_disabled=True))
    cache.put(1, ENDPOINT)
    assert cache.get(1) is None
