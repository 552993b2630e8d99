"""Log directories: what brokers' answers mean, and which sizes are kept of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeLogDirsResponse

from metadata_source import log_dirs, many_brokers
from metadata_source.enrichment import Answer, Rows
from metadata_source.errors import PollError
from metadata_source.log_dirs import KeptSizes
from metadata_source.many_brokers import Broker
from metadata_source.options import TopicFilter
from metadata_source.outcomes import OK
from metadata_source.poll import Poll
from metadata_source.records import BatchRecords, Planned, digests_of

EVERY = TopicFilter()
MONDAY, TUESDAY = date(2026, 11, 2), date(2026, 11, 3)
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)

Sizes = Mapping[tuple[str, str, int], int]
"""Directory, topic and partition -> bytes."""


def answer(
    sizes: Sizes,
    *,
    dirs: Sequence[str] = ("/d1", "/d2"),
    failed: Sequence[str] = (),
    future: Mapping[tuple[str, str, int], tuple[int, int]] | None = None,
    code: int = 0,
    version: int = 4,
    usable: int = 400,
) -> Any:
    """An answer as it comes out of its bytes. `future`: bytes and lag of replicas that move."""
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    topic = result.DescribeLogDirsTopic
    replicas = [
        *((key, size, 0, False) for key, size in sizes.items()),
        *((key, size, lag, True) for key, (size, lag) in (future or {}).items()),
    ]
    found = [
        result(
            error_code=56 if each in failed else 0,
            log_dir=each,
            topics=[]
            if each in failed
            else [
                topic(
                    name=name,
                    partitions=[
                        topic.DescribeLogDirsPartition(
                            partition_index=number,
                            partition_size=size,
                            offset_lag=lag,
                            is_future_key=is_future,
                        )
                        for (of, of_topic, number), size, lag, is_future in replicas
                        if (of, of_topic) == (each, name)
                    ],
                )
                for name in {key[1]: None for key, _, _, _ in replicas if key[0] == each}
            ],
            total_bytes=-1 if each in failed else 1_000,
            usable_bytes=-1 if each in failed else usable,
        )
        for each in dirs
    ]
    given = DescribeLogDirsResponse(throttle_time_ms=0, error_code=code, results=found)
    return given.decode(given.encode(version=version), version=version)


@dataclass
class Asked:
    """Answers each broker, by its port, with these answers one after the other."""

    answers: Mapping[int, Iterator[Any]]
    deadline: float = inf
    asked: list[int] = field(default_factory=list)

    def ask(self, address: tuple[str, int], question: Any, deadline: float) -> Any:
        self.asked.append(address[1])
        assert question.fields == {"topics": None}
        found = next(self.answers[address[1]])
        if isinstance(found, Exception):
            raise found
        return found

    def are_new(self, led: frozenset[tuple[int, int]]) -> bool:
        raise AssertionError(led)


def described(*answers: Any, known: KeptSizes | None = None) -> log_dirs.LogDirs:
    """Of brokers 1, 2, ..., each of which gives one answer."""
    given = Asked({number: iter([each]) for number, each in enumerate(answers, 1)})
    given.deadline = 1e12
    brokers = [Broker(number, ("h", number)) for number in given.answers]
    return log_dirs.described(given, brokers, EVERY, known or KeptSizes())


def kept(
    before: Any, given: Any, day: date = MONDAY, topic_filter: TopicFilter = EVERY
) -> tuple[list[dict[str, Any]], Any]:
    rows, after = log_dirs.kept(before, log_dirs.read(given), topic_filter, day)
    found = [{k: v for k, v in row.items() if v is not None} for row in rows.to_pylist()]
    return found, after


def things(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], int | None]:
    """Directory, topic and partition -> bytes."""
    return {
        (row["log_dir"], row.get("topic"), row.get("partition")): row.get("size_bytes")
        for row in rows
        if not row["is_future"]
    }


def test_directories_of_each_broker_and_what_is_not_known_is_null():
    found = described(
        answer({("/d1", "a", 0): 5}, failed=["/d2"]), answer({}, dirs=["/d1"], version=3)
    )
    assert (found.brokers, found.missing) == ([1, 2], None)
    assert found.dirs == [
        [
            {"log_dir": "/d1", "error_code": 0, "total_bytes": 1_000},
            {"log_dir": "/d2", "error_code": 56, "total_bytes": None},
        ],
        [{"log_dir": "/d1", "error_code": 0, "total_bytes": None}],
    ]
    sizes = found.sizes.to_pylist()
    assert [[row["usable_bytes"] for row in each] for each in sizes] == [[400, None, None], [None]]


def digest(*answers: Any, known: KeptSizes | None = None) -> bytes | None:
    found = described(*answers, known=known)
    beside = {"broker_id": found.brokers, "log_dir_sizes": found.sizes}
    records = BatchRecords(EVERY)
    planned = Planned("20260101T000000Z-0a1b2c", 0, "c", MONDAY, 600_000)
    list(records.rows(planned, Poll(cluster_id="id", error_kind="timeout", error="none")))
    stands_out = tuple(found.brokers)
    rows = Rows(found.dirs, beside=beside, stands_out=stands_out, lasting=found.lasting)
    batches = records.beside([Answer("log_dirs", OK, NOON, NOON, rows)])
    return digests_of(batches)["log_dirs"][1]


def test_a_volume_that_fills_is_no_news():
    """Usable bytes differ with each answer: they would be a row of silver each time."""
    full, fuller = (answer({("/d1", "a", 0): 5}, usable=usable) for usable in (400, 399))
    assert digest(full) == digest(fuller)


def test_that_another_broker_does_not_answer_is_no_news():
    """In a fleet that takes too long it is another one each time."""
    known, late = KeptSizes(), PollError("timeout", "h: late")
    one, other, failed = answer({}), answer({}), answer({}, failed=["/d2"])
    never = digest(one, late, known=known)
    whole = digest(one, other, known=known)
    assert never != whole, "nobody knows what it has"
    assert digest(late, other, known=known) == whole == digest(one, late, known=known)
    assert digest(late, failed, known=known) != whole
    assert digest(late, answer({}), known=known) == whole


def test_the_first_answer_has_all_topics_and_the_largest_partitions(monkeypatch):
    monkeypatch.setattr(log_dirs, "LARGEST", 1)
    rows, _ = kept(None, answer({("/d1", "a", 0): 5, ("/d1", "a", 1): 7, ("/d2", "a", 2): 6}))
    assert things(rows) == {
        ("/d1", None, None): 12,
        ("/d2", None, None): 6,
        ("/d1", "a", None): 12,
        ("/d2", "a", None): 6,
        ("/d1", "a", 1): 7,
    }
    assert [row["replicas"] for row in rows if "partition" not in row] == [2, 1, 2, 1]


def test_what_differs_by_more_than_5_percent_of_what_was_kept(monkeypatch):
    monkeypatch.setattr(log_dirs, "LARGEST", 0)
    sizes = {("/d1", "a", 0): 1_000, ("/d1", "b", 0): 10_000}
    _, before = kept(None, answer(sizes, dirs=["/d1"]))
    for size, is_kept in ((1_050, False), (1_051, True), (1_100, False), (998, True)):
        rows, before = kept(before, answer({**sizes, ("/d1", "a", 0): size}, dirs=["/d1"]))
        same = {("/d1", None, None): size + 10_000}
        changed = {("/d1", "a", None): size, ("/d1", "a", 0): size} if is_kept else {}
        assert things(rows) == same | changed


def test_what_is_gone_has_no_bytes_once_and_what_is_new_has_its_own():
    _, before = kept(None, answer({("/d1", "a", 0): 5, ("/d1", "b", 0): 8}))
    rows, before = kept(before, answer({("/d2", "a", 0): 5, ("/d1", "b", 0): 8}))
    assert things(rows) == {
        ("/d1", None, None): 8,
        ("/d2", None, None): 5,
        ("/d1", "a", None): 0,
        ("/d1", "a", 0): 0,
        ("/d2", "a", None): 5,
        ("/d2", "a", 0): 5,
    }
    assert [row["replicas"] for row in rows if row["size_bytes"] == 0] == [0, 0]
    rows, _ = kept(before, answer({("/d2", "a", 0): 5, ("/d1", "b", 0): 8}))
    assert things(rows) == {("/d1", None, None): 8, ("/d2", None, None): 5}


def test_nothing_is_gone_with_a_directory_that_fails():
    sizes = {("/d1", "a", 0): 5, ("/d2", "b", 0): 8}
    _, before = kept(None, answer(sizes))
    rows, before = kept(before, answer(sizes, failed=["/d2"]))
    assert things(rows) == {("/d1", None, None): 5}
    rows, _ = kept(before, answer(sizes))
    # It tells what is in it, as on a new day: much may have changed meanwhile.
    assert things(rows) == {
        ("/d1", None, None): 5,
        ("/d2", None, None): 8,
        ("/d2", "b", None): 8,
        ("/d2", "b", 0): 8,
    }
    assert [row["is_whole"] for row in rows if "topic" not in row] == [False, True]


def test_all_topics_are_told_after_a_start_and_on_a_new_day():
    """Else nobody knows whether a topic is gone that was told before."""
    given = answer({("/d1", "a", 0): 5})
    found = []
    before = None
    for day in (MONDAY, MONDAY, TUESDAY, TUESDAY):
        rows, before = kept(before, given, day)
        found.append([row["is_whole"] for row in rows if "topic" not in row])
        assert not any("is_whole" in row for row in rows if "topic" in row)
    assert found == [[True, True], [False, False]] * 2


def test_the_first_answer_of_a_day_has_all_again(monkeypatch):
    monkeypatch.setattr(log_dirs, "LARGEST", 1)
    given = answer({("/d1", "a", 0): 5, ("/d1", "a", 1): 7}, dirs=["/d1"])
    first, before = kept(None, given)
    rows, before = kept(before, given)
    assert things(rows) == {("/d1", None, None): 12}
    rows, _ = kept(before, given, TUESDAY)
    assert rows == first


def test_sizes_that_are_not_known_are_null_and_replace_none():
    _, before = kept(None, answer({("/d1", "a", 0): 1_000}, dirs=["/d1"]))
    rows, before = kept(before, answer({("/d1", "a", 0): -1}, dirs=["/d1"]))
    assert things(rows) == {("/d1", None, None): None}
    rows, _ = kept(before, answer({("/d1", "a", 0): 1_000}, dirs=["/d1"]))
    assert things(rows) == {("/d1", None, None): 1_000}


def test_of_many_changes_the_greatest_come_first_and_the_others_later(monkeypatch):
    monkeypatch.setattr(log_dirs, "LARGEST", 0)
    monkeypatch.setattr(log_dirs, "MOST_CHANGED", 2)
    sizes = {("/d1", "a", n): 100 for n in range(5)}
    more = {("/d1", "a", n): 200 + n for n in range(5)}
    _, before = kept(None, answer(sizes, dirs=["/d1"]))
    found = []
    for left_out in (3, 1, 0, 0):
        rows, before = kept(before, answer(more, dirs=["/d1"]))
        assert rows[0]["changes_left_out"] == left_out
        found.append([row["partition"] for row in rows if "partition" in row])
    assert found == [[3, 4], [1, 2], [0], []]


def test_replicas_that_move_are_kept_each_time_and_count_in_their_directory():
    sizes, future = {("/d1", "a", 0): 50}, {("/d2", "a", 0): (20, 7)}
    _, before = kept(None, answer(sizes, future=future))
    rows, _ = kept(before, answer(sizes, future=future))
    assert [(row["log_dir"], row["size_bytes"], row["futures"]) for row in rows[:2]] == [
        ("/d1", 50, 0),
        ("/d2", 20, 1),
    ]
    assert rows[2:] == [
        {
            "log_dir": "/d2",
            "topic": "a",
            "partition": 0,
            "is_future": True,
            "size_bytes": 20,
            "offset_lag": 7,
            "replicas": 1,
        }
    ]


def test_an_empty_replica_that_moved_is_kept_in_both_directories_once(monkeypatch):
    monkeypatch.setattr(log_dirs, "LARGEST", 0)
    others = {("/d1", "gone", 0): 0, ("/d2", "a", 2): 0}
    _, state = kept(None, answer({("/d1", "a", 0): 0, ("/d1", "a", 1): 0} | others))
    moved = {("/d2", "a", 0): 0, ("/d1", "a", 1): 0, ("/d2", "new", 0): 0, ("/d2", "a", 2): 0}
    rows, state = kept(state, answer(moved))
    found = [(row["log_dir"], row["replicas"]) for row in rows if "partition" in row]
    assert (found, things(rows).keys() - {("/d1", None, None), ("/d2", None, None)}) == (
        [("/d1", 0), ("/d2", 1)],
        {("/d1", "a", 0), ("/d2", "a", 0)},
    )
    rows, _ = kept(state, answer(moved))
    assert not [row for row in rows if "partition" in row]


def test_topics_that_are_not_polled_count_in_totals_alone():
    given = answer({("/d1", "a", 0): 5, ("/d1", "b", 0): 8}, dirs=["/d1"])
    rows, _ = kept(None, given, topic_filter=TopicFilter(topics=("b",)))
    assert things(rows) == {
        ("/d1", None, None): 13,
        ("/d1", "b", None): 8,
        ("/d1", "b", 0): 8,
    }


def test_a_broker_that_does_not_answer_has_no_directories():
    known = KeptSizes()
    found = described(answer({}, dirs=["/d1"]), PollError("timeout", "h:2: late"), known=known)
    assert (found.dirs[1], found.sizes.to_pylist()[1], [*known.of]) == (None, [], [1])
    assert found.missing is not None
    assert found.missing.startswith(
        "1 of 2 brokers did not tell their directories: broker 2 (h:2): late"
    )


def test_a_broker_that_is_gone_while_it_is_asked_is_compared_with_its_last_answer():
    """It was cut off, and says nothing of what it had: nothing is gone, and nothing is new."""
    known = KeptSizes()
    sizes = {("/d1", "a", 0): 5, ("/d1", "b", 0): 8}
    first = described(answer(sizes), answer({}), known=known)
    gone = PollError("unreachable", "h:1: closed the connection")
    between = described(gone, answer({}), known=known)
    assert (between.dirs[0], between.sizes.to_pylist()[0]) == (None, [])
    assert between.missing is not None
    assert "broker 1 (h:1): closed the connection" in between.missing
    back = described(answer({("/d1", "a", 0): 5}), answer({}), known=known)
    assert back.dirs == first.dirs
    assert things(back.sizes.to_pylist()[0]) == {
        ("/d1", None, None): 5,
        ("/d2", None, None): 0,
        ("/d1", "b", None): 0,
        ("/d1", "b", 0): 0,
    }


def test_a_directory_that_fails_while_it_is_described_says_nothing_of_its_replicas():
    """Its broker had begun to list them. Those in the other directory count."""
    sizes = {("/d1", "a", 0): 5, ("/d2", "b", 0): 8}
    given = answer(sizes, future={("/d2", "a", 0): (3, 1)})
    given.results[1].error_code = 56
    rows, before = kept(None, given)
    assert {row["log_dir"] for row in rows} == {"/d1"}
    rows, _ = kept(before, answer(sizes))
    assert ("/d2", "b", None) in things(rows), "it is back, and whole"


def test_sizes_that_are_not_known_at_first_are_kept_once_they_are():
    given = answer({("/d1", "a", 0): -1, ("/d1", "a", 1): 7}, dirs=["/d1"], usable=-1)
    rows, before = kept(None, given)
    # A sum of which a part is not known is not known.
    assert things(rows) == {
        ("/d1", None, None): None,
        ("/d1", "a", None): None,
        ("/d1", "a", 1): 7,
    }
    assert not any("usable_bytes" in row for row in rows)
    rows, _ = kept(before, answer({("/d1", "a", 0): 5, ("/d1", "a", 1): 7}, dirs=["/d1"]))
    assert things(rows) == {
        ("/d1", None, None): 12,
        ("/d1", "a", None): 12,
        ("/d1", "a", 0): 5,
    }


class Clock:
    """Stands still but while a broker is silent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(many_brokers, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(log_dirs, "_AT_ONCE", 1)


@dataclass
class Silent:
    """Brokers of which some are silent: each takes all the time that it is given."""

    clock: Clock
    silent: frozenset[int]
    deadline: float
    asked: list[int] = field(default_factory=list)

    def ask(self, address: tuple[str, int], _question: Any, deadline: float) -> Any:
        self.asked.append(address[1])
        if address[1] not in self.silent:
            return answer({}, dirs=["/d1"])
        self.clock.now = deadline
        raise PollError("timeout", f"h:{address[1]}: no answer in time")

    def are_new(self, led: frozenset[tuple[int, int]]) -> bool:
        raise AssertionError(led)


def asked_in_time(
    clock: Clock, silent: Sequence[int], known: KeptSizes, *, of: int, seconds: float = 10
) -> tuple[list[int], list[int], str | None]:
    """Of so many brokers: which are asked, in this order, and which answer; what is missing."""
    visits = Silent(clock, frozenset(silent), clock.now + seconds)
    brokers = [Broker(number, ("h", number)) for number in range(1, of + 1)]
    found = log_dirs.described(visits, brokers, EVERY, known)
    told = [each for each, dirs in zip(found.brokers, found.dirs, strict=True) if dirs is not None]
    assert found.brokers == [each.broker_id for each in brokers]
    return visits.asked, told, found.missing


def test_silent_brokers_leave_the_others_their_time(monkeypatch):
    clock, known = Clock(monkeypatch), KeptSizes()
    every, eight = list(range(1, 11)), range(1, 9)
    asked, told, missing = asked_in_time(clock, eight, known, of=10)
    assert (asked, told) == (every, [9, 10])
    assert missing is not None
    assert missing.startswith("8 of 10 brokers did not tell their directories: broker 1 (h:1): ")
    assert "(1.0 s, see enrichTimeout)" in missing
    # They have their part again, or nobody would know when they are back.
    assert asked_in_time(clock, eight, known, of=10)[:2] == (every, [9, 10])


def test_what_there_is_no_time_for_is_said_and_comes_first_the_next_time(monkeypatch):
    clock, known = Clock(monkeypatch), KeptSizes()
    silent = range(2, 6)
    asked, told, missing = asked_in_time(clock, silent, known, of=6, seconds=3)
    assert (asked, told) == ([1, 2, 3, 4], [1])
    assert missing is not None
    assert "broker 6 (h:6): not asked, no time was left" in missing
    # Then those that were asked the longest ago, also if they were silent.
    assert asked_in_time(clock, silent, known, of=6, seconds=3)[0] == [5, 6, 1, 2, 3]
    assert asked_in_time(clock, silent, known, of=6, seconds=3)[0] == [4, 5, 1, 2]


def test_brokers_at_one_address_share_its_time(monkeypatch):
    """Each of them is asked once the one before has had its part."""
    clock = Clock(monkeypatch)
    monkeypatch.setattr(log_dirs, "_AT_ONCE", 8)
    visits = Silent(clock, frozenset({1}), 10.0)
    brokers = [Broker(number, ("h", 1)) for number in (1, 2, 3, 4)]
    with pytest.raises(PollError, match=r"\(2\.5 s"):
        log_dirs.described(visits, brokers, EVERY, KeptSizes())
    assert visits.asked == [1] * 4


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (answer({}, code=31), "authorization"),
        (answer({}, dirs=[], version=2), "authorization"),
        (answer({}, dirs=["/d1", "/d1"]), "odd_answer"),
        (answer({("/d1", "a", -1): 5}), "odd_answer"),
        (PollError("unsupported_version", "h:1: no"), "unsupported_version"),
    ],
)
def test_no_answer_of_any_broker(given, kind):
    with pytest.raises(PollError, match=r"broker 1 \(h:1\)") as raised:
        described(given)
    assert raised.value.kind == kind


def test_a_replica_that_is_listed_twice_is_odd():
    one = answer({("/d1", "a", 0): 5}, dirs=["/d1"])
    (directory,) = one.results
    directory.topics[0].partitions *= 2
    with pytest.raises(PollError, match="twice"):
        log_dirs.read(one)


def test_random_sizes_are_known_to_5_percent_once_nothing_is_left_out():
    """Who adds up what is kept knows each topic, and each directory exactly."""
    random = Random(7)
    sizes: dict[tuple[str, str, int], int] = {}
    before, known = None, {}
    for _ in range(40):
        for _ in range(6):
            key = random.choice(["/d1", "/d2"]), random.choice("ab"), random.randrange(4)
            if key in sizes and random.random() < 0.3:
                del sizes[key]
            else:
                sizes[key] = random.choice((0, 10, 1_000, sizes.get(key, 1) * 102 // 100))
        rows, before = kept(before, answer(sizes))
        known |= things(rows)
        for log_dir in ("/d1", "/d2"):
            assert known[log_dir, None, None] == sum(
                size for key, size in sizes.items() if key[0] == log_dir
            )
            for topic in "ab":
                of_topic = [n for key, n in sizes.items() if key[:2] == (log_dir, topic)]
                was = known.get((log_dir, topic, None), 0)
                assert abs(sum(of_topic) - was) <= 0.05 * was
