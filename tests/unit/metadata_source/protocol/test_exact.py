"""Bytes that are not what they should be end in one ProtocolError that says where, in bounded time
and memory.
"""

import contextlib
import pickle
import random
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace

import pyarrow as pa
import pytest

from benchmarks.bodies import metadata_response
from metadata_source.errors import ProtocolError, TooSlowError
from metadata_source.protocol import exact
from metadata_source.protocol.exact import Reader
from metadata_source.protocol.metadata import decode_response
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.for_each import for_each
from tests.support.metadata_messages import cluster, with_unknown_tags

VERSIONS = range(14)
MEMORY_PER_BYTE = 100
MEMORY_ALWAYS = 1_000_000


def body_of(version: int, topics: int = 2, partitions: int = 3) -> bytes:
    response = cluster(topics, partitions, shrunk=0.5, seed=version)
    response["brokers"] = response["brokers"][:2]
    return write_message(METADATA_RESPONSE, version, response)


def outcome(body: bytes, version: int) -> ProtocolError | None:
    try:
        decode_response(body, version)
    except ProtocolError as error:
        check(error, len(body), version)
        return error
    return None


def check(error: ProtocolError, size: int, version: int) -> None:
    assert error.version == version
    assert 0 <= error.offset <= size
    assert "\n" not in str(error)
    assert str(error).startswith(
        f"MetadataResponse v{version}: {error.path} at byte {error.offset}: "
    )


@for_each(
    ("version", "topics", "partitions"), [*((version, 1, 2) for version in VERSIONS), (12, 7, 5)]
)
def test_no_prefix_is_a_response(version: int, topics: int, partitions: int) -> None:
    body = body_of(version, topics, partitions)
    assert len(body) < 2048
    assert outcome(body, version) is None
    for size in range(len(body)):
        assert outcome(body[:size], version) is not None


@for_each("version", VERSIONS)
def test_bytes_after_the_end_are_refused(version: int) -> None:
    body = body_of(version)
    error = outcome(body + b"\x00", version)
    assert error is not None
    assert (error.path, error.offset) == ("end of message", len(body))


def mutated(rng: random.Random, body: bytes) -> bytes:
    out = bytearray(body)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out))
        match rng.randrange(5):
            case 0:
                out[at] = rng.randrange(256)
            case 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                del out[at : at + rng.randint(1, 4)]
                out += b"\x00" * (not out)
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 4))
            case 4:
                out[at : at + 4] = rng.choice(
                    (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08")
                )
    return bytes(out)


def decode_mutations(count: int, partitions: int, seed: int) -> None:
    """Decode mutated bodies of every version, some of the flexible ones with unknown tagged
    fields.
    """
    rng = random.Random(seed)
    bodies = [(body_of(version, 2, partitions), version) for version in VERSIONS]
    bodies += [
        (with_unknown_tags(body, version, rng), version) for body, version in bodies if version >= 9
    ]
    wrong = 0
    for _ in range(count):
        body, version = rng.choice(bodies)
        wrong += outcome(mutated(rng, body), version) is not None
    assert 0 < wrong < count


def test_mutated_bodies_end_in_a_result_or_an_error() -> None:
    decode_mutations(2_000, partitions=2, seed=1)


def test_mutated_large_bodies_end_in_a_result_or_an_error() -> None:
    decode_mutations(400, partitions=30, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("partitions", [2, 30])
def test_many_mutated_bodies_end_in_a_result_or_an_error(partitions: int) -> None:
    decode_mutations(50_000, partitions, seed=2)


def hostile_bodies() -> Iterator[tuple[str, bytes, int]]:
    """Bodies that ask for much: more than they hold, or as much work as they can."""
    heads = {version: body_of(version, 0, 0) for version in (1, 5, 8, 9, 12)}
    for version, head in heads.items():
        flexible = version >= 9
        after = (4 if version in (8, 9) else 0) + flexible
        start = head[: len(head) - after - (1 if flexible else 4)]
        most = b"\xff\xff\xff\xff\x07" if flexible else b"\x7f\xff\xff\xff"
        yield f"v{version}: topics without end", start + most + b"\0" * 200, version
        for name, pattern in {
            "zeros": b"\0",
            "ones": b"\1",
            "twos": b"\2",
            "zero two": b"\0\0\0\2",
        }.items():
            filling = pattern * (20_000 // len(pattern))
            count = b"\x81\x08" if flexible else b"\0\0\x04\0"
            yield f"v{version}: {name}", start + count + filling, version
        entry = write_message(METADATA_RESPONSE, version, cluster(1, 500))
        yield f"v{version}: one partition number too large", entry[:-20] + b"\xff" * 20, version


def most_memory(body: bytes, version: int) -> int:
    """Return the most that decoding takes at any time; Arrow's own share as it is at the end."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with contextlib.suppress(ProtocolError):
            kept = decode_response(body, version)  # noqa: F841 - so that Arrow's share is still there
        return tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("body", "version"), [pytest.param(b, v, id=name) for name, b, v in hostile_bodies()]
)
def test_memory_stays_in_proportion_to_the_body(body: bytes, version: int) -> None:
    assert outcome(body, version) is not None
    assert most_memory(body, version) < MEMORY_PER_BYTE * len(body) + MEMORY_ALWAYS


def many_partitions() -> bytes:
    """A body of v12 that only the exact reader reads, slowly: an epoch that is too large ends the
    fast way.
    """
    large = cluster(60, 500)
    large["topics"][0]["partitions"][0]["leader_epoch"] = 1 << 24
    return write_message(METADATA_RESPONSE, 12, large)


def many_tags() -> bytes:
    """Another one."""
    return (
        write_message(METADATA_RESPONSE, 12, cluster(0, 0))[:-1]
        + b"\x80\x80\x40"
        + b"\0\0" * (1 << 20)
    )


@pytest.mark.parametrize(
    ("made", "path"), [(many_partitions, "topics["), (many_tags, "tagged_fields")]
)
def test_the_exact_reader_ends_when_its_time_is_over(
    made: Callable[[], bytes], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = made()
    decode_response(body, 12)
    looks = count()  # at a clock that goes on by a second each time
    monkeypatch.setattr(exact, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    with pytest.raises(TooSlowError, match=r"bytes are left when its time is over") as error:
        decode_response(body, 12, deadline=8)
    assert next(looks) == 10
    assert error.value.offset < len(body) / 10
    assert error.value.path.startswith(path)
    assert isinstance(pickle.loads(pickle.dumps(error.value)), TooSlowError)  # noqa: S301


@pytest.mark.parametrize("shrunk", [0.0, 0.5])
def test_a_large_response_takes_less_than_four_times_its_size(shrunk: float) -> None:
    body = metadata_response(12, 200, 500, shrunk=shrunk)
    decode_response(body, 12)  # what is imported on first use is not counted
    assert most_memory(body, 12) < 4 * len(body)


@pytest.mark.parametrize(
    ("version", "path", "wrong", "problem"),
    [
        (12, "brokers", b"\x00", "null, where null is not allowed (read 00)"),
        (12, "brokers", b"\x80\x00", "a varint with more bytes than it needs (read 80 00)"),
        (
            12,
            "brokers",
            b"\xff\xff\xff\xff\x7f",
            "a varint with more than 32 bits (read ff ff ff ff 7f)",
        ),
        (
            12,
            "brokers",
            b"\xff\xff\xff\xff\xff\x01",
            "a varint of more than 5 bytes (read ff ff ff ff ff 01)",
        ),
        (12, "brokers[1].host", b"\x00", "null, where null is not allowed (read 00)"),
        (12, "topics[1].name", b"\x03\xc3\x28", "a string that is not UTF-8 (read c3)"),
        (12, "topics[1].name", b"\x04\xed\xa0\x80", "a string that is not UTF-8 (read ed)"),
        (
            12,
            "topics[1].partitions[2].isr_nodes",
            b"\xf0\x07",
            "an array of 1007 entries, 4 bytes each at least, but",
        ),
        (
            12,
            "topics[1].partitions[2].isr_nodes",
            b"\x00",
            "null, where null is not allowed (read 00)",
        ),
        (
            12,
            "topics[1].partitions[2].tagged_fields",
            b"\x01\x07\x7f",
            "tagged field 7 of 127 bytes, but",
        ),
        (
            12,
            "topics[1].partitions[2].tagged_fields",
            b"\xff\x7f",
            "16383 tagged fields, 2 bytes each at least, but",
        ),
        (
            5,
            "topics[1].partitions[2].isr_nodes",
            b"\xff\xff\xff\xff",
            "null, where null is not allowed",
        ),
        (
            5,
            "topics[1].partitions[2].isr_nodes",
            b"\xff\xff\xff\xfe",
            "an array of negative length -2",
        ),
        (
            5,
            "topics[1].partitions[2].isr_nodes",
            b"\x7f\xff\xff\xff",
            "an array of 2147483647 entries, 4 bytes each",
        ),
        (5, "topics[1].name", b"\x7f\xff", "a string of 32767 bytes, but"),
        (5, "topics[1].name", b"\xff\xff", "null, where null is not allowed (read ff ff)"),
        (5, "cluster_id", b"\xff\xfe", "a string of negative length -2 (read ff fe)"),
    ],
)
def test_the_error_says_where_and_what(version: int, path: str, wrong: bytes, problem: str) -> None:
    body = body_of(version)
    spans: dict[str, tuple[int, int]] = {}

    def note(read_path: str, start: int, end: int, value: object) -> None:
        spans[read_path] = (start, end)

    Reader(body, METADATA_RESPONSE, version, note).read_message()
    start, end = spans[path]
    error = outcome(body[:start] + wrong + body[end:], version)
    assert error is not None
    assert error.path == path
    assert start <= error.offset <= start + len(wrong)
    assert problem in str(error)


def test_errors_survive_pickling() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_response(body_of(12)[:40], 12)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - as Spark does between its processes
    assert (str(again), again.version, again.path, again.offset) == (
        str(caught.value),
        12,
        caught.value.path,
        caught.value.offset,
    )
