"""The memory of folds as JSON. It says its version, and one of another version is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

import pytest

from jobs.rules.memory import MemoryVersionError, dumps, from_json, loads, to_json

AT = datetime(2026, 11, 1, 12, 30, 0, 250_000, UTC)


class Pair(NamedTuple):
    first: int
    second: str


@dataclass(frozen=True)
class Everything:
    text: str | None = None
    digest: bytes | None = None
    at: datetime | None = None
    window: timedelta = timedelta(0)
    of: "Everything | None" = None
    names: tuple[str, ...] = ()
    by_name: Mapping[str, int] = field(default_factory=dict)
    by_number: dict[int, datetime] = field(default_factory=dict)
    by_place: dict[tuple[str, int], Pair] = field(default_factory=dict)


WRITTEN: dict[str, tuple[Everything, dict[str, Any]]] = {
    "nothing but defaults": (Everything(), {}),
    "text": (Everything("t"), {"text": "t"}),
    "bytes": (Everything(digest=b"\x01\xff"), {"digest": "01ff"}),
    "a time": (Everything(at=AT), {"at": "2026-11-01T12:30:00.250000+00:00"}),
    "a span": (Everything(window=timedelta(seconds=1.5)), {"window": 1.5}),
    "another one": (Everything(of=Everything("t")), {"of": {"text": "t"}}),
    "a tuple": (Everything(names=("a", "b")), {"names": ["a", "b"]}),
    "by text": (Everything(by_name={"b": 1, "a": 2}), {"by_name": {"b": 1, "a": 2}}),
    "by number, in order": (
        Everything(by_number={10: AT, 9: AT}),
        {"by_number": [[9, AT.isoformat()], [10, AT.isoformat()]]},
    ),
    "by place": (
        Everything(by_place={("t", 0): Pair(1, "x")}),
        {"by_place": [[["t", 0], [1, "x"]]]},
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_what_is_written_is_read_again(case: str) -> None:
    value, plain = WRITTEN[case]
    assert to_json(value) == plain
    assert from_json(Everything, json.loads(json.dumps(plain))) == value
    assert from_json(Everything, None) is None
    assert dumps(value) == json.dumps(plain, separators=(",", ":"))


@dataclass(frozen=True)
class First:
    offset: int = 0


@dataclass(frozen=True)
class Second:
    VERSION: ClassVar[int] = 2
    offset: int = 0


def test_a_memory_is_read_by_the_version_that_wrote_it() -> None:
    assert json.loads(dumps(First(7))) == {"offset": 7}
    assert json.loads(dumps(Second(7))) == {"offset": 7, "memory_version": 2}
    for memory in (First(7), Second(7), Second()):
        assert loads(type(memory), dumps(memory)) == memory


class Place(NamedTuple):
    era: int
    offset: int


@dataclass(frozen=True)
class Whole:
    """A field of each kind that a memory has."""

    at: datetime | None = None
    lasts: timedelta = timedelta(0)
    digest: bytes = b""
    names: tuple[str, ...] = ()
    place: Place = field(default=Place(0, 0))
    offsets: dict[int, int] = field(default_factory=dict)
    parts: Mapping[str, First] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (Whole(), "{}"),
        (
            Whole(datetime(2026, 11, 1, 2, 3, 4, 5, UTC)),
            '{"at":"2026-11-01T02:03:04.000005+00:00"}',
        ),
        (Whole(lasts=timedelta(days=2, seconds=3)), '{"lasts":172803.0}'),
        (Whole(digest=b"\x00\xff", names=("b", "a")), '{"digest":"00ff","names":["b","a"]}'),
        (Whole(place=Place(7, 9)), '{"place":[7,9]}'),
        (Whole(offsets={2: 20, 1: 10}), '{"offsets":[[1,10],[2,20]]}'),
        (Whole(parts={"b": First(1), "a": First()}), '{"parts":{"b":{"offset":1},"a":{}}}'),
    ],
)
def test_a_memory_comes_back_as_it_was(memory: Whole, text: str) -> None:
    assert dumps(memory) == text
    found = loads(Whole, text)
    assert found == memory
    assert type(found.place) is Place


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (First, dumps(Second(7)), "in version 2 of offset; this program knows version 1 of"),
        (Second, dumps(First(7)), "in version 1 of offset; this program knows version 2 of"),
        (
            First,
            '{"offset":7,"era":1}',
            "in version 1 of offset, era; this program knows version 1",
        ),
    ],
)
def test_another_version_is_refused_in_one_line(kind: type, text: str, says: str) -> None:
    with pytest.raises(MemoryVersionError, match=says) as raised:
        loads(kind, text)
    assert "\n" not in str(raised.value)
