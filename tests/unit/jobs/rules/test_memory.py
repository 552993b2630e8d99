"""A memory says its version, and one of another version is refused in one line."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from jobs.rules.memory import MemoryVersionError, dumps, loads


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
