"""Requests and answers as bytes, in the shape in which kafka-python's connection takes messages."""

from __future__ import annotations

import struct
from typing import Any

import kafka.errors


class RawRequest:
    """Request bytes in the shape that the library's connection takes; its answer stays bytes."""

    def __init__(self, api_key: int, version: int, body: bytes, flexible: bool) -> None:
        self.API_KEY = api_key
        self.API_VERSION = version
        self.header: RawResponse | None = None
        self._body = body
        self._flexible = flexible
        self._header_bytes = b""

    def with_header(self, correlation_id: int, client_id: str) -> None:
        """Make the header, of version 1, or 2 where it is flexible."""
        name = client_id.encode()
        self._header_bytes = (
            struct.pack(">hhih", self.API_KEY, self.API_VERSION, correlation_id, len(name)) + name
        )
        if self._flexible:
            self._header_bytes += b"\0"  # no tags (request header v2)
        self.header = RawResponse(correlation_id, self._flexible)

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """Return the whole frame."""
        if not (framed and header):
            raise NotImplementedError("kafka-python asks for something else than a whole frame")
        return (
            struct.pack(">i", len(self._header_bytes) + len(self._body))
            + self._header_bytes
            + self._body
        )

    def expect_response(self) -> bool:
        """Whether the broker answers."""
        return True


class RawResponse:
    """Takes an answer's frame apart into header and body."""

    def __init__(self, correlation_id: int, flexible: bool) -> None:
        self.correlation_id = correlation_id
        self._flexible = flexible

    def get_response_class(self) -> RawResponse:
        """Return what the library reads the answer with."""
        return self

    def parse_header(self, frame: Any) -> RawResponse:
        """Read the correlation id."""
        if len(frame) < 4:
            raise kafka.errors.KafkaProtocolError(f"an answer of {len(frame)} bytes has no header")
        (correlation_id,) = struct.unpack(">i", frame.read(4))
        return RawResponse(correlation_id, self._flexible)

    def decode(self, frame: Any) -> bytes:
        """Return the body."""
        # The header's tags are read here, where the library turns a ValueError or struct.error into
        # its protocol error.
        if self._flexible:
            for _ in range(_read_uvarint(frame)):
                _read_uvarint(frame)
                frame.read(_read_uvarint(frame))
        return bytes(memoryview(frame)[frame.tell() :])


def _read_uvarint(frame: Any) -> int:
    value = 0
    for shift in range(0, 35, 7):
        byte: int = struct.unpack("B", frame.read(1))[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("an unsigned varint of more than five bytes")
