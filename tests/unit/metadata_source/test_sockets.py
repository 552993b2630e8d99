"""Names of hosts, looked up by a deadline."""

import socket
import threading
import time

import pytest

from metadata_source.errors import PollError
from metadata_source.sockets import look_up, open_socket


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.example", ".a"])
def test_what_is_no_name_is_unreachable(host):
    with pytest.raises(PollError) as caught:
        look_up((host, 9092), time.monotonic() + 30)
    assert caught.value.kind == "unreachable"
    assert caught.value.problem == f"{host}:9092: not a host's name (a part is empty or too long)"


def test_a_look_up_that_hangs_ends_in_time(monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(60) and [])
    try:
        with pytest.raises(PollError) as caught:
            look_up(("one", 9092), time.monotonic() + 0.2)
        assert not answered.is_set()
    finally:
        answered.set()
    assert caught.value.kind == "timeout"
    assert caught.value.problem == "one:9092: the look-up of the host's name gave no answer in time"


def test_all_addresses_of_a_host_are_tried_and_a_port_that_nobody_has_is_refused():
    assert look_up(("127.0.0.1", 9092), time.monotonic() + 30) == ["127.0.0.1"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = "127.0.0.1", server.getsockname()[1]
        with open_socket("127.0.0.1", address, time.monotonic() + 30) as found:
            assert not found.getblocking()
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    with pytest.raises(PollError, match=r"unreachable: .*: connection refused"):
        open_socket("127.0.0.1", address, time.monotonic() + 30)
