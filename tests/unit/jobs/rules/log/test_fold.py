"""The fold of the controllers' log, over random logs: however they are cut into rounds, and against
the replay of dumps that the truth of polls comes from.
"""

import random
from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate, chain, groupby, pairwise
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.rules.ids import log_id, offset_of
from jobs.rules.log.fold import fold
from jobs.rules.log.silver import TABLES, image_of
from jobs.rules.silver.state import Poll
from jobs.rules.silver.topic_lives import asked_for
from metadata_source.options import TopicFilter
from metadata_source.protocol.cluster_specs import RECORD_TYPES
from schemas import gold
from schemas.in_duckdb import in_duckdb
from schemas.silver import OF_LOG
from tests.support.cluster_logs import (
    CLUSTER,
    LEADER_CHANGE,
    START,
    Entry,
    RandomLog,
    Row,
    in_effect,
    record,
    rows_of,
    rows_of_snapshot,
    snapshot_of,
    span,
)
from tests.support.examples import examples
from tests.support.kafka_classes import as_json
from tests.support.log_rounds import KEYS, LogLake, narrow
from tests.support.turns import Batches
from truth.dump import Record
from truth.log import truth_of

BATCHES = 40
seeds = st.integers(0, 2**32)
PARTITIONS, REGISTRATIONS = "silver.partition_snapshots", "silver.partition_registrations"
TOPICS, TOPIC_CONFIGS = "silver.topic_snapshots", "silver.topic_configs"
BROKERS, CONTROLLERS = "silver.broker_registrations", "gold.controller_changes"


@cache
def random_log(seed: int, batches: int = BATCHES) -> list[Entry]:
    return RandomLog(random.Random(seed)).grow(batches)


def whole(rows: Sequence[Row]) -> LogLake:
    lake = LogLake()
    lake.take(rows)
    return lake


def follow(lake: LogLake, rows: Sequence[Row], until: int, repeats: int = 0) -> None:
    """A round over the rows up to one, from where the state says that it needs them, or some
    before.
    """
    since = lake.state.next_offset if lake.state else 0
    places = [place for place, row in enumerate(rows[:until]) if row["offset"] >= since]
    lake.take(rows[max(0, min(places, default=until) - repeats) : until])


@given(
    seed=seeds, cuts=st.sets(st.integers(1, 100)), narrowed=st.booleans(), repeats=st.integers(0, 5)
)
@settings(max_examples=examples(6))
def test_rounds_cut_anywhere_make_the_same_rows(
    *, seed: int, cuts: set[int], narrowed: bool, repeats: int
) -> None:
    rows = rows_of(random_log(seed))
    lake = LogLake(narrowed=narrowed)
    for cut in sorted({*(cut * len(rows) // 100 for cut in cuts), len(rows)}):
        follow(lake, rows, cut, repeats)
    expected = whole(rows)
    assert lake.rows == expected.rows
    assert lake.state == expected.state


@given(seed=seeds)
@settings(max_examples=examples(3))
def test_a_round_after_each_record_makes_the_same_rows(seed: int) -> None:
    rows = rows_of(random_log(seed, 15))
    lake = LogLake(narrowed=True)
    for cut in range(1, len(rows) + 1):
        follow(lake, rows, cut)
    assert lake.rows == whole(rows).rows


@given(seed=seeds)
@settings(max_examples=examples(3))
def test_records_that_were_taken_say_nothing_again(seed: int) -> None:
    rows = rows_of(random_log(seed))
    lake = whole(rows)
    live = lake.live
    assert fold(lake.state, live, rows).rows == {}


# --- topics that polls ask for ---

SOME = TopicFilter(topics=("a", "b")).to_json()
OTHER = TopicFilter(pattern="[bc]").to_json()
OF_ALL_TOPICS = {table.full_name for table in OF_LOG}
OF_TOPICS = {table.full_name for table in TABLES if "topic" in table.key} - OF_ALL_TOPICS


def asked(filters: str | None, topics: Iterable[str]) -> set[str]:
    return asked_for(filters, {*topics})


def only(rows: Mapping[str, Sequence[Row]], filters: str | None) -> dict[str, list[Row]]:
    """Rows of what a filter covers."""
    return {
        table: [row for row in told if table not in OF_TOPICS or asked(filters, {row["topic"]})]
        for table, told in rows.items()
    }


def states(rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[tuple[Any, ...], Row]]:
    """What holds by open rows, by key: not since when, nor what was before."""
    kept = {
        table.full_name: [
            each for each in table.column_names if each not in table.key and f"prev_{each}" in names
        ]
        for table in TABLES
        if (names := set(table.column_names))
    }
    return {
        table: {
            tuple(row.get(name) for name in KEYS[table][:-1]): {name: row[name] for name in names}
            for row in told
        }
        for table, names in kept.items()
        for told in [rows[table]]
    }


# A topic that polls do not ask for gets partitions.
@example(seed=7728, cuts={0, 13, 14}, narrowed=True)
@given(seed=seeds, cuts=st.sets(st.integers(0, BATCHES)), narrowed=st.booleans())
@settings(max_examples=examples(6))
def test_the_log_tells_the_topics_alone_that_polls_ask_for(
    *, seed: int, cuts: set[int], narrowed: bool
) -> None:
    """In the tables that polls tell too. A round ends with a batch, as what a look has read
    does.
    """
    log = Batches(random.Random(seed))
    rows = rows_of(log.grow(BATCHES))
    lake = LogLake(narrowed=narrowed, topic_filter=SOME)
    for cut in sorted({*(log.ends[cut] for cut in cuts if cut < len(log.ends)), len(rows)}):
        follow(lake, rows, cut)
    assert lake.rows == only(whole(rows).rows, SOME)


@given(
    seed=seeds,
    narrowed=st.booleans(),
    before=st.sampled_from((None, SOME)),
    after=st.sampled_from((None, OTHER)),
)
@settings(max_examples=examples(6))
def test_another_filter_holds_from_the_next_record_on(
    *, seed: int, narrowed: bool, before: str | None, after: str | None
) -> None:
    log = Batches(random.Random(seed))
    rows = rows_of(log.grow(BATCHES))
    lake = LogLake(narrowed=narrowed, topic_filter=before)
    follow(lake, rows, log.ends[BATCHES // 2])
    was_open = {table: lake.live[table] for table in OF_TOPICS}
    lake.topic_filter = after
    follow(lake, rows, log.ends[BATCHES // 2 + 1])
    assert lake.state is not None
    if lake.state.topic_filter == after:
        for table, told in was_open.items():
            ended = {
                tuple(row[name] for name in KEYS[table]): row["end_reason"]
                for row in lake.rows[table]
            }
            for row in told:
                left = (
                    {"gone", "recreated", "not_polled"}
                    if not asked(after, {row["topic"]})
                    else {"gone", "recreated", None}
                )
                assert ended[tuple(row[name] for name in KEYS[table])] in left
    follow(lake, rows, len(rows))
    assert states(lake.live) == states(only(whole(rows).live, after))
    for table in OF_ALL_TOPICS:
        assert lake.rows[table] == whole(rows).rows[table]


# --- against the replay of dumps ---


def times(entries: Sequence[Entry]) -> dict[int, datetime]:
    """When each record that counts was in effect: clocks of controllers differ, and no time is
    before another.
    """
    counted = in_effect(entries)
    every = {entry.offset: entry.at for entry in entries if entry.transaction is not None} | {
        entry.offset: entry.at for entry in counted
    }
    # Records of a transaction are in effect at its end, and so is its begin.
    ends = {entry.offset: entry.at for entry in counted}
    begin = None
    for entry in entries:
        if entry.transaction == 23:
            begin = entry.offset
        elif entry.transaction is not None and begin is not None:
            ends[begin], ends[entry.offset] = entry.at, entry.at
    return dict(
        zip(sorted(every), accumulate((ends[each] for each in sorted(every)), max), strict=True)
    )


def printed(entry: Entry) -> Record:
    """The record as DumpLogSegments prints it."""
    message = RECORD_TYPES[entry.number]
    data = {
        name: value
        for name, value in as_json(message.body, entry.values).items()
        if value is not None
    }
    data |= {
        name: None for name in ("rack", "value") if name not in data and entry.number in (0, 4)
    }
    words = "".join(f"_{each}" if each.isupper() else each.upper() for each in message.name)
    return Record(entry.offset, entry.at, words.strip("_"), data)


@given(seed=seeds)
@settings(max_examples=examples(6))
def test_states_are_those_of_the_replay_of_dumps(seed: int) -> None:
    entries = random_log(seed)
    truth = truth_of(printed(entry) for entry in in_effect(entries) if not entry.is_control)
    lake, at = whole(rows_of(entries)), times(entries)
    found = lake.rows[PARTITIONS]
    assert {(row["topic_id"], row["partition"]) for row in found} == truth.partitions.keys()
    for (topic_id, number), states in truth.partitions.items():
        expected = [
            (
                first.offset,
                at[first.offset],
                first.leader,
                first.leader_epoch,
                list(first.isr),
                list(first.replicas),
            )
            for _, same in groupby(
                states, lambda state: (state.leader, state.leader_epoch, state.isr, state.replicas)
            )
            for first in [next(same)]
        ]
        own = sorted(
            (row for row in found if (row["topic_id"], row["partition"]) == (topic_id, number)),
            key=lambda row: row["first_poll"],
        )
        changed = [
            (offset_of(first["first_poll"]), first["valid_from"], *key)
            for key, same in groupby(
                own, lambda row: [row[n] for n in ("leader", "leader_epoch", "isr", "replicas")]
            )
            for first in [next(same)]
        ]
        assert changed == expected
        removed_at = truth.ends_at((topic_id, number))
        assert (own[-1]["end_reason"] == "gone") == (removed_at is not None)
        # What changed nothing that clients see is counted.
        registered = [
            row
            for row in lake.rows[REGISTRATIONS]
            if (row["topic_id"], row["partition"]) == (topic_id, number)
        ]
        last = max(registered, key=lambda row: row["first_poll"])
        assert last["is_recovering"] == states[-1].recovering
        first_epoch = next(
            e.values["partition_epoch"] for e in in_effect(entries) if e.offset == states[0].offset
        )
        assert last["partition_epoch"] == first_epoch + len(states) - 1


def test_random_logs_have_everything() -> None:
    """Else the tests above say less than they seem to."""
    lakes = [whole(rows_of(random_log(seed))) for seed in range(20)]
    rows = {table: [row for lake in lakes for row in lake.rows[table]] for table in lakes[0].rows}
    assert all(rows.values())
    snapshots = rows[PARTITIONS]
    assert any(row["valid_from"] == row["valid_to"] for row in snapshots)
    only_offline = ("leader", "leader_epoch", "isr", "replicas")
    assert any(
        row["prev_isr"] and all(row[n] == row[f"prev_{n}"] for n in only_offline)
        for row in snapshots
    )
    assert {True, False} == {row["is_recovering"] for row in rows[REGISTRATIONS]}
    assert {None, 1, 2} == {row["min_insync_replicas"] for row in rows[TOPIC_CONFIGS]}
    assert {True, False} == {row["in_controlled_shutdown"] for row in rows[BROKERS]}
    transactions = {entry.transaction for seed in range(20) for entry in random_log(seed)}
    assert transactions == {None, 23, 24, 25}


# --- what holds of all rows ---


def check_rows(lake: LogLake) -> None:
    for table in TABLES:
        rows = lake.rows[table.full_name]
        names = set(table.column_names) - {"part"}
        assert all(row.keys() == names for row in rows)
        of_key: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row["first_poll"]):
            of_key[repr([row[name] for name in table.key[:-1]])].append(row)
        for row, following in chain.from_iterable(map(pairwise, of_key.values())):
            assert row["valid_to"] is not None
            assert row["valid_to"] <= following["valid_from"]
            is_followed = row["superseded_poll"] == following["first_poll"]
            assert (row["end_reason"] is None and is_followed) or row["end_reason"] in (
                "gone",
                "recreated",
            )
    for row in lake.rows[CONTROLLERS]:
        assert row.keys() == set(gold.CONTROLLER_CHANGES.column_names)


@given(seed=seeds)
@settings(max_examples=examples(6))
def test_rows_are_exact(seed: int) -> None:
    lake = whole(rows_of(random_log(seed)))
    check_rows(lake)
    for table in TABLES:
        for row in lake.rows[table.full_name]:
            if row["prev_poll"] is not None:
                assert row["prev_sent_at"] == row["valid_from"]
            if row["valid_to"] is not None:
                assert row["last_seen_at"] == row["last_seen_sent_at"] == row["valid_to"]


def test_rows_satisfy_what_their_tables_demand() -> None:
    rows = whole(rows_of(random_log(4, 300))).rows
    with duckdb.connect() as database:
        for table in (*TABLES, gold.CONTROLLER_CHANGES):
            columns = [column for column in table.columns if column.generated_as is None]
            ddl = ", ".join(f"`{column.name}` {column.type}" for column in columns)
            database.execute(in_duckdb(f"CREATE TABLE {table.name} ({ddl})"))
            values = [[row.get(column.name) for column in columns] for row in rows[table.full_name]]
            database.executemany(
                f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(columns))})", values
            )
            for check in (
                *table.constraints.values(),
                *(f"{c.name} IS NOT NULL" for c in columns if not c.nullable),
            ):
                broken = database.execute(
                    f"SELECT * FROM {table.name} WHERE NOT ({in_duckdb(check)})"
                ).fetchall()
                assert broken == [], (table.name, check)


# --- snapshots and breaks ---


def after_a_break(seed: int, went: str, cuts: Sequence[float] = ()) -> tuple[LogLake, LogLake, int]:
    """Lakes of a log of which a part was lost, or truncated and written otherwise: as it was known
    before, and after all; and the offset of the snapshot that came.
    """
    chance = random.Random(seed)
    entries = random_log(seed)
    first, second = sorted(chance.sample(range(len(entries) // 4, len(entries)), 2))
    then = whole(rows_of(entries[: second + 1]))
    assert then.state is not None
    offset = then.state.next_offset
    rest = [entry for entry in entries if entry.offset >= offset]
    before = entries[: first + 1]
    image = image_of(then.live)
    rows = rows_of_snapshot(snapshot_of(image), offset, 1, entries[second].at)
    if went == "truncated":
        # The same states, but at lower offsets, and in a later epoch.
        down = min(offset - 1, before[-1].offset) - 1
        rows = rows_of_snapshot(snapshot_of(image), offset - down, 1, entries[second].at)
        rest = [
            Entry(**{**vars(e), "offset": e.offset - down, "leader_epoch": e.leader_epoch + 50})
            for e in rest
        ]
        marks = [span(went, before[-1].offset + 1, 1)]
        offset -= down
    else:
        marks = [span(went, before[-1].offset + 1, offset)]
    lake = whole(rows_of(before))
    known = whole(rows_of(before))
    rows = [*marks, *rows, *rows_of(rest)]
    ends = sorted({*(len(marks) + int(cut * (len(rows) - len(marks))) for cut in cuts), len(rows)})
    done = 0
    for end in ends:
        lake.take(rows[done:end])
        # Records that a round could not take come again.
        assert lake.state is not None
        if lake.state.is_whole:
            held = [place for place, row in enumerate(rows[:end]) if row["record"] == "record"]
            done = next(
                (place for place in held if rows[place]["offset"] >= lake.state.next_offset), end
            )
    return known, lake, offset


@pytest.mark.parametrize("went", ["lost", "truncated"])
@given(seed=seeds)
@settings(max_examples=examples(4))
def test_what_was_lost_is_one_bounded_observation(went: str, seed: int) -> None:
    known, lake, offset = after_a_break(seed, went)
    check_rows(lake)
    assert known.state is not None
    assert known.state.last is not None
    if went == "lost" and offset <= known.state.next_offset:
        return  # It was of an open transaction, and comes again.
    place = log_id("" if went == "lost" else known.state.last.id, offset - 1)
    for row in (
        row for table in TABLES for row in lake.rows[table.full_name] if row["first_poll"] == place
    ):
        assert (row["prev_poll"], row["prev_sent_at"]) == (known.state.last.id, known.state.last.at)
        assert row["valid_from"] >= row["prev_sent_at"]
    ended = [
        row
        for table in TABLES
        for row in lake.rows[table.full_name]
        if row["superseded_poll"] == place
    ]
    assert all(row["last_seen_sent_at"] == known.state.last.at for row in ended)


@pytest.mark.parametrize("went", ["lost", "truncated"])
@given(seed=seeds)
@settings(max_examples=examples(4))
def test_after_a_break_the_state_is_that_of_the_log(went: str, seed: int) -> None:
    _, lake, _ = after_a_break(seed, went)
    assert state_of(lake) == state_of(whole(rows_of(random_log(seed))))


@pytest.mark.parametrize("went", ["lost", "truncated"])
@given(seed=seeds, cuts=st.lists(st.floats(0, 1), max_size=4))
@settings(max_examples=examples(4))
def test_a_break_may_be_cut_anywhere(went: str, seed: int, cuts: list[float]) -> None:
    assert after_a_break(seed, went, cuts)[1].rows == after_a_break(seed, went)[1].rows


def state_of(lake: LogLake) -> dict[str, Any]:
    image = vars(image_of(lake.live))
    sets = ("isr", "elr", "last_known_elr", "adding_replicas", "removing_replicas")
    partitions = {
        key: {name: sorted(of) if name in sets else of for name, of in told.items()}
        for key, told in image["partitions"].items()
    }
    return image | {
        "partitions": partitions,
        "configs": {key: of for key, of in image["configs"].items() if of},
    }


@given(seed=seeds)
@settings(max_examples=examples(4))
def test_states_of_a_first_snapshot_have_no_begin(seed: int) -> None:
    then = whole(rows_of(random_log(seed)))
    assert then.state is not None
    offset, at = then.state.next_offset, START + timedelta(hours=1)
    lake = whole(rows_of_snapshot(snapshot_of(image_of(then.live)), offset, 3, at))
    check_rows(lake)
    assert state_of(lake) == state_of(then)
    for table in TABLES:
        for row in lake.rows[table.full_name]:
            assert (row["first_poll"], row["valid_from"]) == (log_id("", offset - 1), at)
            assert (row["prev_poll"], row["prev_sent_at"], row["valid_to"]) == (None, None, None)


def test_a_break_that_lost_nothing_that_was_to_come_is_none() -> None:
    rows = a_log((change(isr=[1]), 2))
    taken = whole(rows)
    # Up to what was taken already; and what a snapshot has told, once more.
    for marks in ([span("lost", 2, 4)], [span("truncated", 9, 4)]):
        lake = whole(rows)
        again = a_log((change(isr=[1]), 2), (change(isr=[1, 2]), 3))
        lake.take([*marks, *again, was_read(again)])
        assert [row["isr"] for row in lake.live[PARTITIONS]] == [[1, 2]]
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(taken.live)), 9, 1, START + timedelta(seconds=9)
    )
    lost = [span("lost", 4, 9), *snapshot]
    lake = whole([*rows, *lost])
    before = lake.rows
    lake.take([*lost, *rows_of([Entry(9, 1, START + timedelta(seconds=10), *record(20))])])
    assert lake.rows == before
    assert lake.state is not None
    assert lake.state.is_whole


def test_a_log_that_has_lost_its_end_is_not_told_again() -> None:
    """What changed before is history already, with its times. The difference came between two
    observations.
    """
    rows = a_log((change(isr=[1]), 2), (change(isr=[1, 2]), 3), (change(leader=2), 9))
    found = START + timedelta(seconds=60)
    again = [row | {"read_at": found} for row in rows[:5]]
    lake = whole(rows)
    lake.take([span("truncated", 6, 5, found), *again, was_read(again)])
    states = sorted(lake.rows[PARTITIONS], key=lambda row: row["first_poll"])
    assert [(row["leader"], row["isr"]) for row in states] == [
        (1, [1, 2]),
        (1, [1]),
        (1, [1, 2]),
        (2, [1, 2]),
        (1, [1, 2]),
    ]
    last = log_id("", 5)
    assert (states[-1]["first_poll"], states[-1]["prev_poll"]) == (log_id(last, 4), last)
    assert lake.rows[TOPICS] == whole(rows).rows[TOPICS], "the topic was there all the time"


def test_the_snapshot_after_a_truncation_is_taken_though_the_log_was_not_known_before_it() -> None:
    """Its end was lost while it was read: that is said first, and then where it was cut off."""
    rows = a_log((change(isr=[1]), 2))
    found = START + timedelta(seconds=60)
    for cut in (3, 4):
        lake = whole([*rows, span("lost", 4, 9, found - timedelta(seconds=1))])
        snapshot = rows_of_snapshot(
            snapshot_of(image_of(whole(rows[:3]).live)), 3, 2, START + timedelta(seconds=3)
        )
        news = [span("truncated", 9, cut, found), *(row | {"read_at": found} for row in snapshot)]
        lake.take(news)
        assert lake.state is not None
        assert (lake.state.is_whole, lake.state.next_offset) == (True, 3)
        assert [row["isr"] for row in lake.live[PARTITIONS]] == [[1, 2]]


def test_rows_of_before_a_truncation_that_come_again_say_nothing() -> None:
    """A snapshot among them is of the log that is no more."""
    rows = a_log((change(isr=[1]), 2))
    old = rows_of_snapshot(
        snapshot_of(image_of(whole(rows).live)), 4, 1, START + timedelta(seconds=2)
    )
    found = START + timedelta(seconds=60)
    cut = [*old, span("truncated", 4, 3, found)]
    again = [row | {"read_at": found} for row in rows[:3]]
    lake = whole(cut)
    lake.take([*cut, *again])
    assert lake.state is not None
    assert lake.state.is_open, "it is not said yet what was read"
    lake.take([*cut, *again, was_read(again)])
    assert (lake.state.is_open, lake.state.is_whole, lake.state.next_offset) == (False, True, 3)
    assert [row["isr"] for row in lake.live[PARTITIONS]] == [[1, 2]]


def test_a_truncation_is_taken_once() -> None:
    rows = a_log((change(isr=[1]), 2))
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(whole(rows[:3]).live)), 3, 2, START + timedelta(seconds=3)
    )
    again = [Entry(3, 2, START + timedelta(seconds=4), *change(leader=2))]
    marks = [span("truncated", 4, 3), *snapshot, *rows_of(again)]
    lake = whole([*rows, *marks])
    assert [(row["leader"], row["isr"]) for row in lake.live[PARTITIONS]] == [(2, [1, 2])]
    before = lake.rows
    lake.take(marks)
    assert lake.rows == before


def was_read(records: Sequence[Row], since: int = 0) -> Row:
    """The row that says that these were read, and the offsets without rows before them from `since`
    on.
    """
    last = records[-1]
    of_last = {name: last[name] for name in ("leader_epoch", "timestamp")}
    return span("read", since, last["offset"] + 1, last["read_at"]) | of_last


@pytest.mark.parametrize("first", [0, 1])
@given(seed=seeds, cuts=st.lists(st.floats(0, 1), max_size=4))
@settings(max_examples=examples(4))
def test_a_log_that_begins_again_is_one_observation_of_what_was_read_then(
    first: int, seed: int, cuts: list[float]
) -> None:
    """It may be another log, or the same one that has lost its end: the state is that of it as it
    is now.
    """
    chance = random.Random(seed)
    entries, other = random_log(seed), random_log(seed + chance.randint(0, 1))
    before = rows_of(entries)[: chance.randint(len(entries) // 2, len(entries))]
    known, lake = whole(before), whole(before)
    assert known.state is not None
    assert known.state.last is not None

    later = [
        Entry(**{**vars(e), "leader_epoch": e.leader_epoch + 50})
        for e in other
        if e.offset >= first
    ]
    found = START + timedelta(days=1)
    again = [row | {"read_at": found} for row in rows_of(later)]
    end = chance.randint(len(later) // 2, len(later))
    marks = [span("truncated", before[-1]["offset"] + 1, chance.randint(0, 9), found)]
    # Offset 0 cannot be read once there is a snapshot.
    marks += [span("lost", 0, 1, found)] * (first and chance.randint(0, 1))
    batches = [*again[:end], was_read(again[:end], first), *again[end:], was_read(again[-1:])]
    feed(lake, [*before, *marks, *batches], len(before), cuts)

    check_rows(lake)
    assert state_of(lake) == state_of(whole(rows_of(other)))
    observed, last = end_of_observation(later[:end]) - 1, known.state.last
    rows = [
        row for table in TABLES for row in lake.rows[table.full_name] if row["first_poll"] > last.id
    ]
    assert all(row["first_poll"] >= log_id(last.id, observed) for row in rows)
    for row in rows:
        if row["first_poll"] == log_id(last.id, observed):
            assert (row["prev_poll"], row["prev_sent_at"]) == (last.id, last.at)


def end_of_observation(entries: Sequence[Entry]) -> int:
    """The offset after all that is in effect: that of a transaction that is open, or the last one's
    next.
    """
    begin = None
    for entry in entries:
        if entry.transaction is not None:
            begin = entry.offset if entry.transaction == 23 else None
    return entries[-1].offset + 1 if begin is None else begin


def feed(lake: LogLake, rows: Sequence[Row], done: int, cuts: Sequence[float]) -> None:
    """Rounds that end anywhere. Rows that a round could not take come again, with all that came
    before them.
    """
    ends = sorted({*(done + int(cut * (len(rows) - done)) for cut in cuts), len(rows)})
    for end in ends:
        lake.take(rows[done:end])
        assert lake.state is not None
        if not lake.state.is_open:
            done = end


def test_a_snapshot_without_its_end_says_nothing_yet() -> None:
    rows = rows_of_snapshot([record(12, name="metadata.version", feature_level=25)], 10, 1, START)
    lake = LogLake()
    lake.take(rows[:-1])
    assert lake.state is not None
    assert lake.state.last is None
    lake.take(rows)
    assert [row["level"] for row in lake.rows["silver.features"]] == [25]


def test_where_polls_told_before_the_log_takes_over_once_it_was_read_later() -> None:
    rows = a_log((change(isr=[1]), 2), (change(isr=[1, 2], leader=2), 3))
    polled = Poll(
        "S/000000000012", START + timedelta(seconds=5), START + timedelta(seconds=4), 2_000
    )
    as_polled = {"first_poll": "S/000000000003", "prev_poll": None, "from_offset": None}
    known = {
        table: [row | as_polled for row in of_table]
        for table, of_table in whole(rows[:4]).live.items()
        if table in (PARTITIONS, TOPICS, TOPIC_CONFIGS, "silver.cluster_snapshots")
    }
    early = fold(None, known, rows, polled)
    assert not early.state.tells
    # The log tells what polls cannot from its begin on, exactly.
    assert early.rows.keys() == {REGISTRATIONS, "silver.features"}
    assert [row["leader_epoch"] for row in early.rows[REGISTRATIONS]] == [1]
    known |= {table: list(of_table) for table, of_table in early.rows.items()}
    quiet = span("read", 5, 6, START + timedelta(seconds=9))
    folded = fold(early.state, known, [quiet], polled)
    assert folded.state.tells
    ended, began = sorted(folded.rows[PARTITIONS], key=lambda row: row["first_poll"])
    assert (ended["last_poll"], ended["last_seen_sent_at"], ended["isr"]) == (
        polled.id,
        polled.sent_at,
        [1],
    )
    assert (began["prev_poll"], began["prev_sent_at"]) == (polled.id, polled.sent_at)
    assert (began["isr"], began["leader"], began["leader_epoch"]) == ([1, 2], 2, 1)
    assert began["valid_from"] == START + timedelta(seconds=9)
    assert polled.id < began["first_poll"] < "S/000000000013"
    assert TOPICS not in folded.rows
    [source] = folded.rows["silver.history_sources"]
    assert (source["source"], source["first_poll"]) == ("log", began["first_poll"])


# --- one thing at a time ---

PARTITION: Mapping[str, Any] = {
    "partition_id": 0,
    "removing_replicas": [],
    "adding_replicas": [],
    "leader_epoch": 0,
    "partition_epoch": 0,
    "directories": [],
}
TOPIC_ID = b"\1" * 16
BEGINNING = [
    (record(12, name="metadata.version", feature_level=25), 0),
    (record(2, name="t", topic_id=TOPIC_ID), 1),
    (record(3, **PARTITION, topic_id=TOPIC_ID, replicas=[1, 2], isr=[1, 2], leader=1), 1),
]


def a_log(*more: tuple[tuple[int, int, Row], int]) -> list[Row]:
    """Rows of records, each with the second in which it was written."""
    return rows_of(
        [
            Entry(offset, 1, START + timedelta(seconds=second), *each)
            for offset, (each, second) in enumerate([*BEGINNING, *more])
        ]
    )


def change(**told: Any) -> tuple[int, int, Row]:
    return record(5, partition_id=0, topic_id=TOPIC_ID, **told)


def test_a_transaction_is_in_effect_at_its_end() -> None:
    rows = a_log(
        (change(isr=[1]), 2),
        (record(23), 3),
        (change(leader=2), 4),
        (record(24), 9),
        (change(isr=[1, 2]), 10),
    )
    lake = whole(rows)
    found = [
        (row["leader"], row["isr"], (row["valid_from"] - START).seconds)
        for row in lake.rows[PARTITIONS]
    ]
    assert sorted(found, key=lambda row: row[2]) == [
        (1, [1, 2], 1),
        (1, [1], 2),
        (2, [1], 9),
        (2, [1, 2], 10),
    ]


def test_an_aborted_transaction_is_never_in_effect() -> None:
    rows = a_log((record(23), 3), (change(leader=2), 4), (record(25), 9))
    lake = whole(rows)
    assert lake.rows[PARTITIONS] == whole(rows[:3]).rows[PARTITIONS]
    assert lake.state is not None
    assert lake.state.next_offset == 6


def test_an_open_transaction_holds_up_nothing_before_it() -> None:
    rows = a_log((change(isr=[1]), 2), (record(23), 3), (change(leader=2), 4))
    lake = whole(rows)
    assert len(lake.rows[PARTITIONS]) == 2
    assert lake.state is not None
    assert lake.state.next_offset == 4


def test_a_transaction_that_was_truncated_never_ends() -> None:
    rows = a_log((record(23), 3), (change(leader=2), 4))
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(whole(rows[:3]).live)), 2, 2, START + timedelta(seconds=3)
    )
    lake = whole([*rows, span("truncated", 5, 2), *snapshot])
    assert [row["leader"] for row in lake.rows[PARTITIONS]] == [1]
    assert lake.state is not None
    assert lake.state.next_offset == 2


def test_making_a_topic_is_one_state_of_it() -> None:
    config = record(4, resource_type=2, resource_name="t", name="min.insync.replicas", value="2")
    more = [
        record(
            3,
            **{**PARTITION, "partition_id": number},
            topic_id=TOPIC_ID,
            replicas=[1],
            isr=[1],
            leader=1,
        )
        for number in (1, 2)
    ]
    lake = whole(a_log((config, 1), *((each, 1) for each in more)))
    assert [row["partition_count"] for row in lake.rows[TOPICS]] == [3]
    assert [row["min_insync_replicas"] for row in lake.rows[TOPIC_CONFIGS]] == [2]


def test_a_broker_that_is_fenced_makes_one_state_of_a_partition_with_its_change() -> None:
    def broker(number: int) -> tuple[int, int, Row]:
        return record(
            0, 3, broker_id=number, is_migrating_zk_broker=False, incarnation_id=b"\2" * 16,
            broker_epoch=number, end_points=[], features=[], rack=None, fenced=False,
            in_controlled_shutdown=False,
        )  # fmt: skip

    lake = whole(
        a_log(
            (broker(1), 2),
            (broker(2), 2),
            (change(isr=[2], leader=2), 3),
            (record(7, id=1, epoch=1), 3),
        )
    )
    found = [(row["leader"], row["isr"], row["offline_replicas"]) for row in lake.rows[PARTITIONS]]
    assert sorted(found) == [(1, [1, 2], []), (1, [1, 2], [1, 2]), (2, [2], [1])]


def test_records_of_a_leader_before_the_last_one_are_not_replayed() -> None:
    """They come from a log that the quorum has thrown away."""
    rows = a_log((change(isr=[1]), 2))
    lake = whole(rows)
    before = lake.rows, replace(lake.state) if lake.state else None
    lake.take(rows_of([Entry(4, 0, START + timedelta(seconds=3), *change(leader=2, isr=[2]))]))
    assert lake.state is not None
    assert (lake.rows, replace(lake.state, heard_at=None)) == (
        before[0],
        before[1] and replace(before[1], heard_at=None),
    )
    lake.take(rows_of([Entry(4, 1, START + timedelta(seconds=3), *change(isr=[1, 2]))]))
    assert [row["isr"] for row in lake.live[PARTITIONS]] == [[1, 2]]


def test_a_snapshot_of_what_is_known_is_no_observation() -> None:
    rows = a_log((change(isr=[1]), 2))
    lake = whole(rows)
    before, state = lake.rows, lake.state
    assert state is not None
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(lake.live)), state.next_offset, 1, START + timedelta(seconds=9)
    )
    lake.take(snapshot)
    assert lake.state is not None
    assert (lake.rows, replace(lake.state, heard_at=state.heard_at)) == (before, state)
    # So what is written at the moment of the last record is of that moment still.
    lake.take(rows_of([Entry(4, 1, START + timedelta(seconds=2), *change(isr=[1, 2]))]))
    assert {row["valid_from"] for row in lake.rows[PARTITIONS]} == {
        START + timedelta(seconds=n) for n in (1, 2)
    }


def test_configurations_of_a_topic_go_with_it() -> None:
    """``ConfigurationsDelta``: one of the same name, made later, has none of them."""
    again = b"\3" * 16
    config = record(4, resource_type=2, resource_name="t", name="min.insync.replicas", value="2")
    made_again = record(2, name="t", topic_id=again)
    partition = record(3, **PARTITION, topic_id=again, replicas=[1, 2], isr=[1, 2], leader=1)
    removed = a_log((config, 2), (record(9, topic_id=TOPIC_ID), 3))
    lake = whole(removed)
    assert (lake.live["silver.configs"], lake.live[TOPIC_CONFIGS]) == ([], [])
    assert [(row["value"], row["end_reason"]) for row in lake.rows["silver.configs"]] == [
        ("2", "gone")
    ]
    lake = whole(
        a_log((config, 2), (record(9, topic_id=TOPIC_ID), 3), (made_again, 4), (partition, 4))
    )
    assert lake.live["silver.configs"] == []
    assert [row["min_insync_replicas"] for row in lake.live[TOPIC_CONFIGS]] == [None]


@pytest.mark.parametrize(
    ("told", "offline"), [([], []), ([b"\6" * 16], [1]), ([b"\6" * 16, b"\5" * 16], [])]
)
def test_a_change_of_a_broker_without_log_directories_leaves_those_before(
    told: list[bytes], offline: list[int]
) -> None:
    """``ClusterDelta.replay(BrokerRegistrationChangeRecord)``: an empty list is the field's
    default, "unchanged".
    """
    registered = [
        record(
            0, 3, broker_id=number, is_migrating_zk_broker=False, incarnation_id=b"\2" * 16,
            broker_epoch=number, end_points=[], features=[], rack=None, fenced=False,
            in_controlled_shutdown=False, log_dirs=[b"\5" * 16],
        )
        for number in (1, 2)
    ]  # fmt: skip
    partition = record(
        3, **{**PARTITION, "partition_id": 1, "directories": [b"\5" * 16] * 2}, topic_id=TOPIC_ID,
        replicas=[1, 2], isr=[1, 2], leader=1,
    )  # fmt: skip
    moved = record(17, broker_id=1, broker_epoch=1, in_controlled_shutdown=1, log_dirs=told)
    lake = whole(a_log(*((each, 2) for each in registered), (partition, 3), (moved, 4)))
    (known,) = (row["log_dirs"] for row in lake.live[BROKERS] if row["broker_id"] == 1)
    assert known == sorted(
        urlsafe_b64encode(each).decode().rstrip("=") for each in told or [b"\5" * 16]
    )
    assert [row["offline_replicas"] for row in lake.live[PARTITIONS] if row["partition"] == 1] == [
        offline
    ]


def test_settings_are_those_in_effect() -> None:
    def minimum(kind: int, resource: str, value: str | None) -> tuple[int, int, Row]:
        return record(
            4, resource_type=kind, resource_name=resource, name="min.insync.replicas", value=value
        )

    changes = [
        (4, "", "2"),
        (2, "t", "3"),
        (2, "t", None),
        (4, "1", "1"),
        (4, "1", None),
        (4, "", None),
    ]
    lake = whole(a_log(*((minimum(*each), second) for second, each in enumerate(changes, 2))))
    rows = sorted(lake.rows[TOPIC_CONFIGS], key=lambda row: row["first_poll"])
    # While one broker has another value than the others, which of them counts depends on the
    # leader.
    assert [row["min_insync_replicas"] for row in rows] == [None, 2, 3, 2, None, 2, None]


def settings_told(lake: LogLake) -> list[tuple[int | None, float | None, float]]:
    """Each min.insync.replicas of the one topic, after when and by when it was so, in seconds."""
    rows = sorted(lake.rows[TOPIC_CONFIGS], key=lambda row: row["first_poll"])
    return [
        (
            row["min_insync_replicas"],
            None if row["prev_sent_at"] is None else (row["prev_sent_at"] - START).total_seconds(),
            (row["valid_from"] - START).total_seconds(),
        )
        for row in rows
    ]


def test_a_setting_of_brokers_files_is_as_polls_tell_it_where_no_record_sets_one() -> None:
    def of_topic(value: str | None) -> tuple[int, int, Row]:
        return record(
            4, resource_type=2, resource_name="t", name="min.insync.replicas", value=value
        )

    rows = a_log((of_topic("3"), 4), (of_topic(None), 6))
    # Known before the topic was made.
    lake = LogLake()
    lake.static_configs = {"min.insync.replicas": "2"}
    lake.take(rows)
    assert settings_told(lake) == [(2, 1, 1), (3, 4, 4), (2, 6, 6)]
    # Told by a poll while no record comes: since when it was so, nobody knows. Once.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2"}
    polled = Poll(
        "S/000000000001", START + timedelta(seconds=2), START + timedelta(seconds=2), 2_000
    )
    for _ in range(2):
        lake.take([span("read", 3, 3, START + timedelta(seconds=3))], polled)
    lake.take(rows[3:], polled)
    assert settings_told(lake) == [(None, 1, 1), (2, None, 3), (3, 4, 4), (2, 6, 6)]
    # Told just before a record that changes something else.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2"}
    lake.take(a_log((change(isr=[1]), 5))[3:], polled)
    assert settings_told(lake) == [(None, 1, 1), (2, None, 5)]
    # Told just before a record that sets another one: one state, not two of one moment.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    lake.take(rows[3:4], polled)
    assert settings_told(lake) == [(None, 1, 1), (3, None, 4)]
    # Told just before the record that deletes the topic.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2"}
    lake.take(a_log((record(9, topic_id=TOPIC_ID), 5))[3:], polled)
    assert settings_told(lake) == [(None, 1, 1)]


def test_controllers_change_with_the_leaders_of_the_log() -> None:
    def elected(controller: int, offset: int, epoch: int) -> Entry:
        at = START + timedelta(seconds=offset)
        return Entry(
            offset, epoch, at, LEADER_CHANGE, 0, {"leader_id": controller}, is_control=True
        )

    lake = whole(rows_of([elected(1, 0, 1), elected(3, 1, 4)]))
    names = (
        "controller_id",
        "controller_epoch",
        "prev_controller_id",
        "prev_controller_epoch",
        "began_after",
    )
    assert [
        tuple(row[name] for name in names)
        for row in sorted(lake.rows[CONTROLLERS], key=lambda r: r["poll"])
    ] == [
        (1, 1, None, None, None),
        (3, 4, 1, 1, START + timedelta(seconds=1)),
    ]
    assert {row["cluster"] for row in lake.rows[CONTROLLERS]} == {CLUSTER["cluster"]}


def test_a_log_that_begins_in_the_middle_says_nothing_before_a_snapshot() -> None:
    lake = whole(rows_of([Entry(7, 1, START, *BEGINNING[0][0])]))
    assert not any(lake.rows.values())
    assert lake.state is not None
    assert not lake.state.is_whole


def test_needed_are_the_things_that_records_may_change() -> None:
    other, config = b"\2" * 16, {"resource_type": 2, "name": "retention.ms", "value": "1"}
    lake = whole(
        a_log(
            (record(2, name="u", topic_id=other), 2),
            (record(3, **PARTITION, topic_id=other, replicas=[3], isr=[3], leader=3), 2),
            (record(4, **config, resource_name="u"), 2),
        )
    )

    def left(*more: tuple[int, int, Row]) -> dict[str, list[str]]:
        rows = narrow(lake.live, a_log(*((each, 3) for each in more))[3:])
        return {
            table: sorted(row["topic"] for row in rows[table])
            for table in (PARTITIONS, TOPICS, TOPIC_CONFIGS)
        }

    assert left(change(isr=[1])) == {PARTITIONS: ["t"], TOPICS: ["t"], TOPIC_CONFIGS: ["t"]}
    assert left(record(9, topic_id=other))[PARTITIONS] == ["u"]
    assert left(record(7, id=3, epoch=1))[PARTITIONS] == ["u"]
    assert left(record(4, **config, resource_name="u"))[PARTITIONS] == ["u"]
    default = record(4, resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    assert left(default) == {PARTITIONS: [], TOPICS: ["t", "u"], TOPIC_CONFIGS: ["t", "u"]}
    more = record(
        3, **{**PARTITION, "partition_id": 1}, topic_id=other, replicas=[3], isr=[3], leader=3
    )
    assert left(more) == {PARTITIONS: [], TOPICS: ["u"], TOPIC_CONFIGS: ["u"]}
    for all_of_it in (a_log((record(28, topic_name=""), 2)), rows_of_snapshot([], 5, 1, START)):
        assert narrow(lake.live, all_of_it)[PARTITIONS] == lake.live[PARTITIONS]
