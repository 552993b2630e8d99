"""Asks one broker, over the wire, what it knows."""

import socket
from collections.abc import Sequence
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from local_cluster.ports import HOST

# Every Kafka from 2.1 on knows it.
_VERSION = 7


def brokers_known_to(port: int, *, timeout: float = 2.0) -> frozenset[int]:
    """The broker ids in the metadata answer of the broker on this PLAINTEXT port: those registered
    and not fenced.

    Raises OSError when there is no answer within `timeout` seconds.
    """
    return frozenset(broker.node_id for broker in metadata_of(port, [], timeout).brokers)


def cluster_id_of(port: int, *, timeout: float = 2.0) -> str:
    """The id of the cluster that the broker on this PLAINTEXT port belongs to.

    Raises OSError as above.
    """
    return str(metadata_of(port, [], timeout).cluster_id)


def metadata_of(
    port: int, topics: Sequence[str] | None = None, timeout: float = 2.0
) -> MetadataResponse:
    """The metadata that the broker on this PLAINTEXT port has of these topics; None: of all. Raises
    OSError as above.

    One plain request: an admin client asks any broker, and brokers learn of each other at different
    times.
    """
    topic = MetadataRequest.MetadataRequestTopic
    asked = None if topics is None else [topic(name=name) for name in topics]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False, version=_VERSION)
    return ask(port, request, MetadataResponse, timeout)


def ask(port: int, request: ApiMessage, response: type[ApiMessage], timeout: float) -> Any:
    """The answer of the broker on this PLAINTEXT port to one of kafka-python's requests. Raises
    OSError as above.

    Its clients leave sockets that did not connect to the garbage collector.
    """
    request.with_header()
    with (
        socket.create_connection((HOST, port), timeout=timeout) as connection,
        connection.makefile("rb") as answer,
    ):
        connection.sendall(request.encode(header=True, framed=True))
        size = int.from_bytes(_exactly(answer.read(4), 4))
        body = _exactly(answer.read(size), size)
    return response.decode(body, version=request.API_VERSION, header=True)


def is_listening(port: int, *, timeout: float = 2.0) -> bool:
    """Whether something accepts connections on this port."""
    try:
        socket.create_connection((HOST, port), timeout=timeout).close()
    except OSError:
        return False
    return True


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise ConnectionError("the broker closed the connection")
    return data
