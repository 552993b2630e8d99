"""Rules of groups: storms, coordinators and what polls tell, against Java, a second writing, and cases worked out by hand."""

import random
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.rules import coordinators, group_polls, storms
from jobs.rules.events import GROUP
from schemas import gold, silver
from schemas.table import Table
from tests.group_states import ORDERS, Row, at, classic, consumer, member, states

CLUSTER = {"cluster_id": "id-prod", "cluster": "prod"}


def frame(spark: SparkSession, rows: Iterable[Row], table: Table, *more: str) -> DataFrame:
    """Rows of a table, what they leave out null; `more`: columns besides, as DDL."""
    columns = [f"`{c.name}` {c.type}" for c in table.columns if c.generated_as is None]
    schema = StructType.fromDDL(", ".join([*columns, *more]))
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema).coalesce(1)


def rows_of(rows: DataFrame) -> list[Row]:
    return [
        {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()}
        for row in (row.asDict(recursive=True) for row in rows.collect())
    ]


# --- storms ---


def chains(times: list[tuple[datetime, str]], least: int, window: timedelta) -> list[list[tuple[datetime, str]]]:
    """What hangs together, the dumb way: every window that begins with some time, and all that share a member."""
    found: list[set[tuple[datetime, str]]] = []
    for begin, _ in times:
        inside = {time for time in times if begin <= time[0] < begin + window}
        if len(inside) >= least:
            found.append(inside)
    merged: list[set[tuple[datetime, str]]] = []
    for inside in found:
        together = inside.union(*(other for other in merged if other & inside))
        merged = [*(other for other in merged if not other & inside), together]
    return [sorted(chain) for chain in merged]


def test_storms_are_all_that_hangs_together_and_nothing_else(spark: SparkSession) -> None:
    window = timedelta(seconds=60)
    pick = random.Random(7)
    rebalances, members = [], []
    client = ("client_id", "client_host")
    expected: list[tuple[Row, list[tuple[datetime, str]]]] = []
    for number in range(150):
        group = {**CLUSTER, "group_id": f"g{number}"}
        # Whole tens of seconds, so that many are as far apart as the window is long, or at the same time.
        times = [(at(10 * pick.randint(0, 60)), f"g{number}-{i}") for i in range(pick.randint(0, 25))]
        rebalances += [{**group, "id": id_, "began_by": time} for time, id_ in times]
        expected += [({**group, "kind": "storm"}, chain) for chain in chains(times, 4, window)]
        joined: dict[tuple[str, str], set[tuple[datetime, str]]] = defaultdict(set)
        for time, id_ in times:
            for number_of in range(pick.randint(0, 3)):
                of, change = (
                    (pick.choice("ab"), pick.choice(["/h1", "/h2"])),
                    pick.choice(["joined", "stayed", "joined"]),
                )
                row = {"rebalance_id": id_, "began_by": time, "member_id": f"{id_}-{number_of}", "change": change}
                members.append({**group, **dict(zip(client, of, strict=True)), **row})
                if change == "joined":
                    joined[of].add((time, id_))
        for of, times_of in joined.items():
            loop = {**group, "kind": "crash_loop", **dict(zip(client, of, strict=True))}
            expected += [(loop, chain) for chain in chains(sorted(times_of), 3, window)]
    of_groups = frame(spark, rebalances, gold.REBALANCES).localCheckpoint()
    of_members = frame(spark, members, gold.REBALANCE_MEMBERS).localCheckpoint()

    def found(of_groups: DataFrame, of_members: DataFrame) -> DataFrame:
        return storms.storms(of_groups, 4, window).unionByName(storms.crash_loops(of_members, 3, window))

    whole = found(of_groups, of_members).localCheckpoint()
    assert set(whole.columns) == set(gold.REBALANCE_STORMS.column_names) - {"updated_at"}
    rows = rows_of(whole)
    assert len({row["id"] for row in rows}) == len(rows) > 100
    names = ("group_id", "kind", "client_id", "client_host", "began_by", "last_by", "rebalances")
    assert sorted(repr([row[name] for name in names]) for row in rows) == sorted(
        repr([*(row.get(name) for name in ("group_id", "kind", *client)), chain[0][0], chain[-1][0], len(chain)])
        for row, chain in expected
    )
    for row in rows:
        lasted = (row["last_by"] - row["began_by"]) / timedelta(hours=1)
        assert row["per_hour"] == (pytest.approx(row["rebalances"] / lasted) if lasted else None)

    # Done up to some time, and then on from there: what changed is told again under the same id, what did not is not looked at.
    done = at(300)
    known = found(of_groups.where(F.col("began_by") <= done), of_members.where(F.col("began_by") <= done))
    spans = storms.spans(of_groups.where(F.col("began_by") > done), known, window)
    later = (
        found(
            of_groups.join(spans, list(GROUP), "inner").where("began_by >= since"),
            of_members.join(spans, list(GROUP), "inner").where("began_by >= since"),
        )
        .join(spans, list(GROUP))
        .where("last_by >= affected_from")
        .drop("since", "affected_from")
    )
    piecemeal = {row["id"]: row for row in rows_of(known)} | {row["id"]: row for row in rows_of(later)}
    assert piecemeal == {row["id"]: row for row in rows}


# --- coordinators ---


def test_a_group_is_in_the_partition_that_java_says(spark: SparkSession) -> None:
    names = ["", "a", "polygenelubricants", "Schrödinger", "消費者", "🦑🦑", "a" * 300]

    @settings(max_examples=300, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
    @given(st.text())
    def make(name: str) -> None:
        names.append(name)

    make()
    asked = spark.createDataFrame([(name,) for name in names], "name string").coalesce(1)
    partitions = [
        coordinators.log_partition(F.col("name"), F.lit(count)).alias(str(count)) for count in (1, 50, 2**31 - 1)
    ]
    found = {row["name"]: tuple(row[1:]) for row in asked.select("name", *partitions).collect()}
    # Py4J makes Python strings of Java's, so a list of one is asked: its hash is 31 + the string's.
    lists, utils = spark._jvm.java.util.List, spark._jvm.org.apache.kafka.common.utils.Utils

    def java_hash(name: str) -> int:
        return (lists.of(name).hashCode() - 31 + 2**31) % 2**32 - 2**31

    assert found == {name: tuple(utils.abs(java_hash(name)) % count for count in (1, 50, 2**31 - 1)) for name in names}
    # The one hash of which Java has no absolute value.
    assert java_hash("polygenelubricants") == -(2**31)
    assert found["polygenelubricants"] == (0, 0, 0)


def leaders(*seen: tuple[int, int, int | None], topic: str = "__consumer_offsets", interval: int = 10) -> list[Row]:
    """States of a partition by (first poll, leader, error), polls every `interval` s that take a second.

    The leader epoch is 4 at first, and one more with each change of the leader; an error hides the leader alone.
    """
    changes = (
        not (error or error_before) and leader != led for (_, led, error_before), (_, leader, error) in pairwise(seen)
    )
    epochs = list(accumulate(changes, initial=4))
    rows = []
    for i, (first, leader, error) in enumerate(seen):
        before = seen[i - 1] if i else None
        after = seen[i + 1] if i + 1 < len(seen) else None
        rows.append(
            {
                **CLUSTER,
                "topic": topic,
                "partition": 3,
                "leader": leader,
                "error_code": error or 0,
                "leader_epoch": epochs[i],
                "prev_leader_epoch": epochs[i - 1] if i else None,
                "prev_leader": before and before[1],
                "prev_error_code": before and (before[2] or 0),
                "first_poll": f"s/{first:012d}",
                "first_seen_at": at(interval * first + 1),
                "prev_sent_at": at(interval * (first - 1)) if first else None,
                "interval_ms": 1000 * interval,
                **(
                    {
                        "superseded_poll": f"s/{after[0]:012d}",
                        "superseded_at": at(interval * after[0] + 1),
                        "last_poll": f"s/{after[0] - 1:012d}",
                        "last_seen_at": at(interval * after[0] - interval + 1),
                        "last_seen_sent_at": at(interval * (after[0] - 1)),
                    }
                    if after
                    else {}
                ),
            }
        )
    return rows


def test_coordinators_and_the_moves_that_rebalances_followed(spark: SparkSession) -> None:
    # Polls at 0, 10, 20, ... s. Broker 1, from poll 20 on 2 (the ISR is another from poll 21 on), from poll 40 none, from poll 41 on 1;
    # at poll 60 it was asked on a listener that 1 does not have.
    states = leaders(
        (0, 1, None), (20, 2, None), (21, 2, None), (40, -1, None), (41, 1, None), (60, -1, 72), (61, 1, None)
    )
    states += leaders((0, 1, None), (5, 2, None), topic="orders")
    groups = [
        ("here", at(0), None),
        ("late", at(202), None),
        ("gone", at(0), at(202)),
        ("back", at(300), None),
        ("back", at(0), at(150)),
    ]
    groups_frame = spark.createDataFrame(
        [("id-prod", group, 3, since, until) for group, since, until in groups]
        + [("id-prod", "other", 4, at(0), None)],
        "cluster_id string, group_id string, log_partition int, known_since timestamp, known_until timestamp",
    )
    states_frame = frame(spark, states, silver.PARTITION_SNAPSHOTS).localCheckpoint()
    moved = coordinators.moves(states_frame, groups_frame).localCheckpoint()
    found = rows_of(moved)
    assert {
        (row["group_id"], row["prev_broker_id"], row["broker_id"], row["began_after"], row["began_by"]) for row in found
    } == {
        ("here", 1, 2, at(190), at(201)),
        ("gone", 1, 2, at(190), at(201)),
        *((group, 2, -1, at(390), at(401)) for group in ("here", "late", "back")),
        *((group, -1, 1, at(400), at(411)) for group in ("here", "late", "back")),
    }
    assert len({row["id"] for row in found}) == len(found) == 8
    assert {(row["event"], row["source"], row["log_partition"]) for row in found} == {("coordinator_moved", "polls", 3)}
    assert set(moved.columns) <= set(gold.GROUP_EVENTS.column_names)
    move = {(row["group_id"], row["poll"][-2:]): row["id"] for row in found}

    settled = at(651)
    cases = {
        # began_by, ended_by -> coordinator, followed_move, move. The look-ahead of a move is 20 s.
        "before the first poll": (at(-5), at(-4), None, None, None),
        "watched for less than the look-ahead": (at(20), at(20), 1, None, None),
        "long before": (at(22), at(22), 1, False, None),
        "before, maybe after: the polls leave it open": (at(195), at(195), None, True, "20"),
        "before, by its epoch": (at(195), at(195), None, False, None),
        "after, by its epoch": (at(195), at(195), None, True, "20"),
        "went on for long before, by its epoch": (at(150), at(199), 1, False, None),
        "ended before the last poll with the old one": (at(188), at(189), 1, False, None),
        "went on meanwhile": (at(150), at(230), 1, True, "20"),
        "in the look-ahead": (at(221), at(222), 2, True, "20"),
        "after it": (at(222), at(223), 2, False, None),
        "between two moves": (at(405), at(406), None, True, "41"),
        "no leader by both polls": (at(399), at(399), None, True, "40"),
        "goes on, one behind": (at(425), None, 1, True, "41"),
        "goes on, none so far": (at(500), None, 1, None, None),
        "asked in the wrong place, before": (at(588), at(588), 1, False, None),
        "asked in the wrong place": (at(595), at(596), None, None, None),
        "asked in the wrong place, before by its epoch": (at(595), at(596), None, False, None),
        "soon after": (at(625), at(626), 1, None, None),
        "long after": (at(640), at(640), 1, False, None),
        "it ended when no poll had come": (at(640), at(660), 1, None, None),
        "it began when no poll had come": (at(652), at(660), None, None, None),
    }
    ended_under = {  # leader epochs, where they are told; the first move was from 4 to 5
        "before, by its epoch": 4,
        "went on for long before, by its epoch": 4,
        "after, by its epoch": 5,
        "asked in the wrong place, before by its epoch": 7,
    }
    rebalances = [
        {**CLUSTER, "id": name, "group_id": "here", "log_partition": 3, "began_by": begin, "ended_by": end}
        | {"settled_at": settled, "ended_leader_epoch": ended_under.get(name)}
        for name, (begin, end, *_) in cases.items()
    ]
    odd = {"began_by": at(205), "ended_by": at(205), "settled_at": settled}
    rebalances += [
        {**CLUSTER, "id": "made after the move", "group_id": "late", "log_partition": 3, **odd},
        {**CLUSTER, "id": "of a partition that is not polled", "group_id": "here", "log_partition": 9, **odd},
        {**CLUSTER, "id": "of no known partition", "group_id": "here", **odd},
        {
            "cluster_id": "never polled",
            "id": "never polled",
            "group_id": "here",
            "log_partition": 3,
            **odd,
            "settled_at": None,
        },
    ]
    asked = frame(spark, rebalances, gold.REBALANCES, "settled_at timestamp").drop("move_id")
    told = coordinators.with_coordinators(asked, states_frame, moved)
    assert {row["id"]: (row["coordinator"], row["followed_move"], row["move_id"]) for row in rows_of(told)} == {
        **{
            name: (coordinator, followed, poll and move["here", poll])
            for name, (_, _, coordinator, followed, poll) in cases.items()
        },
        "made after the move": (2, False, None),
        "of a partition that is not polled": (None, None, None),
        "of no known partition": (None, None, None),
        "never polled": (None, None, None),
    }
    new = states_frame.where("first_poll > 's/000000000040'")
    assert rows_of(coordinators.asked_since(new)) == [{"cluster_id": "id-prod", "asked_since": at(400)}]


# --- polls of groups ---


def group(*seen: tuple[int, Row | None], **of: Any) -> list[Row]:
    """Rows of silver.group_snapshots of one group, by the polls at which it was seen other than before; polls every 10 s take a second."""
    return [{**CLUSTER, **of, **row} for row in states(*seen)]


def test_begins_of_classic_rebalances(spark: SparkSession) -> None:
    stable, other, empty = (
        classic(state, member(id_)) for state, id_ in (("Stable", "a"), ("Stable", "b"), ("Empty", ""))
    )
    joining, syncing = classic("PreparingRebalance", member("a")), classic("CompletingRebalance", member("a"))
    rows = group(
        (0, stable), (3, joining), (4, syncing), (6, stable), (9, other), (12, joining), (14, empty), group_id="g"
    )
    rows += group((2, joining), (3, None), (5, joining), group_id="made anew")
    rows += group((0, joining), (4, stable), group_id="first")
    rows += group((0, stable), (1, joining), (2, syncing), (4, stable), group_id="cut")[2:]
    rows += group((0, consumer("Assigning", 2, 1)), (4, consumer("Stable", 2, 2)), group_id="epochs")
    began = group_polls.begins(frame(spark, rows, silver.GROUP_SNAPSHOTS)).localCheckpoint()
    assert sorted((tuple(row.values())[1:] for row in rows_of(began)), key=repr) == sorted(
        [
            ("g", at(20), at(31), at(61)),
            ("g", at(80), at(91), at(91)),
            ("g", at(110), at(121), at(141)),
            ("made anew", at(10), at(21), at(31)),
            ("made anew", at(40), at(51), None),
            ("first", None, at(1), at(41)),
            ("cut", None, at(21), at(41)),
        ],
        key=repr,
    )
    cases = {
        # began_by, began_after and ms since the one before, of the log -> began_after, began_by.
        "seen while it went on": ("g", 50, None, None, at(20), at(31)),
        "before the poll that would have shown it": ("g", 25, None, None, at(20), at(25)),
        "a second one, before a poll saw that the first was over": ("g", 55, 50, 5_000, at(50), at(55)),
        "known closer": ("g", 50, 25, 25_000, at(25), at(31)),
        "of what no poll saw, and another before": ("g", 15, None, None, None, at(15)),
        "between two polls": ("g", 85, None, None, at(80), at(85)),
        "emptied": ("g", 140, 85, 55_000, at(110), at(121)),
        "after all of it": ("g", 142, None, None, None, at(142)),
        "goes on by the polls": ("made anew", 300, None, None, at(40), at(51)),
        "before any poll": ("first", 20, None, None, None, at(1)),
        "no polls": ("unknown", 20, None, None, None, at(20)),
    }
    of_log = [
        {**CLUSTER, "id": name, "group_id": group_id, "source": "log", "group_type": "classic"}
        | {"began_after": after and at(after), "began_by": at(by), "since_previous_ms": since}
        | {"ended_after": at(by + 1), "ended_by": at(by + 1)}
        for name, (group_id, by, after, since, *_) in cases.items()
    ]
    of_log += [
        {**of_log[0], "id": "of another type", "group_type": "consumer"},
        {**of_log[0], "id": "of polls", "source": "polls"},
    ]
    once = group_polls.bounded(frame(spark, of_log, gold.REBALANCES), began).localCheckpoint()
    found = {row["id"]: row for row in rows_of(once)}
    assert {name: (row["began_after"], row["began_by"]) for name, row in found.items()} == {
        **{name: tuple(case[-2:]) for name, case in cases.items()},
        "of another type": (None, at(50)),
        "of polls": (None, at(50)),
    }
    assert (found["emptied"]["duration_ms_min"], found["emptied"]["duration_ms_max"]) == (20_000, 31_000)
    # It is 36 s then from the end of the one before to its begin.
    assert found["emptied"]["since_previous_ms"] == 36_000
    again = {row["id"]: row for row in rows_of(group_polls.bounded(once, began))}
    assert again == found


def test_what_polls_tell_has_the_columns_of_gold(spark: SparkSession) -> None:
    a = member("a", {ORDERS: [0]}, epoch=3, target={ORDERS: [0]}, instance_id="i")
    rows = group(
        (0, consumer("Stable", 2, 2, {**a, "epoch": 2})),
        (2, consumer("Assigning", 3, 2, {**a, "epoch": 2})),
        group_id="g",
    )
    rows += group(
        (3, consumer("Stable", 3, 3, a)), (6, consumer("Stable", 3, 3, {**a, "member_id": "b"})), group_id="made"
    )
    rows += group((0, classic("Empty")), (7, None), group_id="gone")
    rows += group((0, classic("Empty")), group_id="as it was")
    states_frame = frame(spark, rows, silver.GROUP_SNAPSHOTS).withColumn("done_poll", F.lit("s/000000000005"))
    going_on = frame(spark, [{**CLUSTER, "group_id": "g", "poll": "s/000000000002"}], gold.REBALANCES)
    told = group_polls.polled(states_frame, going_on).localCheckpoint()
    rebalances, members, events = (
        tell(told) for tell in (group_polls.rebalances, group_polls.members, group_polls.events)
    )
    for frame_of, table in (
        (rebalances, gold.REBALANCES),
        (members, gold.REBALANCE_MEMBERS),
        (events, gold.GROUP_EVENTS),
    ):
        assert [(f.name, f.dataType) for f in frame_of.schema] == [
            (f.name, f.dataType)
            for f in StructType.fromDDL(
                ", ".join(f"`{c.name}` {c.type}" for c in table.columns if c.generated_as is None)
            )
            if f.name != "updated_at"
        ]
    (rebalance,), (of_it,) = rows_of(rebalances), rows_of(members)
    assert (rebalance["group_id"], rebalance["source"], rebalance["poll"]) == ("g", "polls", "s/000000000002")
    assert (rebalance["began_after"], rebalance["began_by"], rebalance["ended_by"]) == (at(10), at(21), None)
    assert (of_it["rebalance_id"], of_it["cluster"], of_it["began_by"]) == (rebalance["id"], "prod", at(21))
    assert of_it["after"] == [{"topic": "orders", "topic_id": ORDERS, "partitions": [0]}]
    # That one was made was told before; what was then is not told again.
    assert {(row["group_id"], row["event"], row["poll"][-1]) for row in rows_of(events)} == {
        ("made", "static_restart", "6"),
        ("gone", "deleted", "7"),
    }
