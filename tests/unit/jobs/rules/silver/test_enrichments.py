"""The things that answers list: brokers, and those of each kind of question beside polls."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from jobs.rules.silver.enrichments import (
    headers_of,
    min_isr_of_changed,
    settings_of,
    static_configs,
    take,
)
from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.state import Observation, Poll
from schemas import silver
from tests.support.histories import START, UNTOLD, Answer
from tests.support.silver_cases import Row, rows, shown_by, shows, taken

CLUSTER = {"cluster_id": "id-prod", "cluster": "prod"}
SEEN = START - timedelta(seconds=30)
POLLS = [Poll(f"s/{n}", START, START, 10_000) for n in range(2)]
FIRST, SECOND = Observation(POLLS[0], None), Observation(POLLS[1], POLLS[0])


def configs(
    min_isr: str | None, unclean: str = "false", source: str = "DYNAMIC_TOPIC_CONFIG"
) -> Row:
    unclean_at_all = {"value": unclean, "source": "DEFAULT_CONFIG"}
    return {
        "min.insync.replicas": {"value": min_isr, "source": source},
        "unclean.leader.election.enable": unclean_at_all,
    }


def of_partition(**lists: Any) -> Row:
    return {
        "topic": "t",
        "record": "x",
        **{kind: [{"partition": 0, **of}] for kind, of in lists.items()},
    }


THINGS: dict[str, tuple[str, Row, Any, Row]] = {
    "configs": (
        "configs",
        {"topic": "t", "configs": configs("2", "true")},
        ("t",),
        {"min_insync_replicas": 2, "unclean_leader_election_enable": True},
    ),
    "quorum": (
        "quorum",
        {
            "quorum": {"leader_id": 3, "leader_epoch": 7, "voters": [2, 1], "observers": [9, 4]},
            "quorum_replicas": [
                {"replica_id": n, "is_voter": n < 4, "is_behind": n in {2, 4}}
                | {"log_end_offset": None if n == 4 else 100 + n, "last_caught_up_at": SEEN}
                for n in (1, 2, 3, 4, 4, 9)
            ],
        },
        (),
        {"controller_id": 3, "quorum_epoch": 7, "voters": [1, 2], "observers": [4, 9]}
        | {"voters_behind": [2], "observers_behind": [4]}
        | {
            "behind": [
                {"replica_id": n, "is_voter": n < 4, "offsets": far, "caught_up_at": SEEN}
                for n, far in ((2, 1), (4, None))
            ]
        },
    ),
    "reassignments": (
        "reassignments",
        of_partition(reassignments={"adding": [3, 2], "removing": [1]}),
        ("t", 0),
        {"adding_replicas": [2, 3], "removing_replicas": [1]},
    ),
    "elr": (
        "elr",
        of_partition(elr={"elr": [3, 2], "last_known_elr": None}),
        ("t", 0),
        {"elr": [2, 3], "last_known_elr": None},
    ),
    "fenced": (
        "fenced",
        {"fenced": [{"broker_id": 3, "host": "h", "port": 1, "rack": None}]},
        (3,),
        {"host": "h", "port": 1, "rack": None},
    ),
    "log_dirs": (
        "log_dirs",
        {
            "broker_id": 3,
            "log_dirs": [{"log_dir": "/d", "error_code": 56, "total_bytes": None}],
        },
        (3, "/d"),
        {"is_online": False, "error_code": 56, "total_bytes": None},
    ),
}
"""Kind of question -> a row of bronze, the key of what it lists, and its state."""


def known_of(kind: str) -> Intervals:
    table = silver.BROKER_SNAPSHOTS if kind == "brokers" else silver.ENRICHMENTS[kind]
    return Intervals(table, CLUSTER, ())


@pytest.mark.parametrize("kind", THINGS)
def test_what_an_answer_lists(kind: str) -> None:
    kind, row, key, state = THINGS[kind]
    known = known_of(kind)
    take(kind, [row], None, FIRST, known)
    assert {name: known.open[key][name] for name in state} == state
    take(kind, [], None, SECOND, known)
    (ended,) = known.changed.values()
    assert (known.open, ended["end_reason"]) == ({}, "gone"), "it is listed no more"


def test_how_far_somebody_is_behind_is_as_of_the_first_answer_and_no_state_of_its_own() -> None:
    kind, row, key, state = THINGS["quorum"]
    known = known_of(kind)
    take(kind, [row], None, FIRST, known)
    later = [each | {"log_end_offset": 50} for each in row["quorum_replicas"]]
    take(kind, [row | {"quorum_replicas": later}], None, SECOND, known)
    assert (known.open[key]["behind"], len(known.changed)) == (state["behind"], 1)
    untold = [each | {"is_behind": None} for each in later]
    fresh = known_of(kind)
    take(kind, [row | {"quorum_replicas": untold}], None, FIRST, fresh)
    assert fresh.open[key]["behind"] is None


@pytest.mark.parametrize(
    ("kind", "topic_filter", "reason"),
    [
        ("configs", {"topics": ["t"]}, "gone"),
        ("configs", {"topics": ["u"]}, "not_polled"),
        ("reassignments", {"pattern": "u.*"}, "not_polled"),
        ("elr", {"pattern": "u.*"}, "not_polled"),
        ("elr", {"pattern": "t.*"}, "gone"),
        ("fenced", {"topics": ["u"]}, "gone"),
    ],
)
def test_of_topics_that_are_not_asked_for_nothing_is_polled(
    kind: str, topic_filter: Row, reason: str
) -> None:
    known = known_of(kind)
    take(kind, [THINGS[kind][1]], None, FIRST, known)
    take(kind, [], json.dumps(topic_filter), SECOND, known)
    assert [row["end_reason"] for row in known.changed.values()] == [reason]


@pytest.mark.parametrize(
    ("api_version", "racks"), [(None, ["a"]), (0, ["a"]), (1, ["a", None]), (12, ["a", None])]
)
def test_no_rack_is_a_state_where_the_answer_has_racks(
    api_version: int | None, racks: list[str | None]
) -> None:
    known = known_of("brokers")
    for rack, now in (("a", FIRST), (None, SECOND)):
        broker = {"broker_id": 1, "host": "h", "port": 1, "rack": rack}
        header = {"brokers": [broker], "api_version": api_version}
        take("brokers", [header], None, now, known)
    assert [row["rack"] for row in known.changed.values()] == racks


def test_directories_of_a_broker_that_does_not_answer_are_as_they_were() -> None:
    def told(log_dir: str, total: int | None) -> Row:
        return {"log_dir": log_dir, "error_code": 0, "total_bytes": total}

    known = known_of("log_dirs")
    each = [{"broker_id": n, "log_dirs": [told("/d1", 5), told("/d2", 5)]} for n in (1, 2)]
    take("log_dirs", each, None, FIRST, known)
    # Of broker 1 a directory is not there any more, and of another the volume is not known.
    silent = {"broker_id": 2, "log_dirs": None}
    take(
        "log_dirs", [{"broker_id": 1, "log_dirs": [told("/d1", None)]}, silent], None, SECOND, known
    )
    assert {key: row["total_bytes"] for key, row in known.open.items()} == {
        (1, "/d1"): None,
        (2, "/d1"): 5,
        (2, "/d2"): 5,
    }
    ended = [key for (key, _), row in known.changed.items() if row["end_reason"] == "gone"]
    assert ended == [(1, "/d2")]


def test_an_answer_that_is_not_whole_ends_no_group() -> None:
    """A broker that did not answer may coordinate those that were not listed."""
    stable = ("classic", "consumer", "Stable", None, None, None, "range", ())
    empty = ("classic", "consumer", "Empty", None, None, None, None, ())
    answers = shown_by(None, *[shows(5)] * 4)
    lost = (
        "failed: broker 3 (b3:9092): no answer in time (2.5 s, see enrichTimeout); no broker that "
        "answered leads "
    )
    some = (
        "ok: 1 of 2 groups could not be described: broker 3 (b3:9092): no answer in time (2.5 s, "
        "see enrichTimeout)"
    )
    for answer, outcome in zip(
        answers, ("ok", f"{lost}__consumer_offsets partitions 3", some, "ok"), strict=True
    ):
        answer.enriched = {"groups": outcome}
    answers[0].enrichments = {"groups": {("g1",): stable, ("g2",): stable}}
    answers[2].enrichments = {"groups": {("g1",): empty, ("g2",): UNTOLD}}
    answers[3].enrichments = {"groups": {("g1",): empty}}

    def told(*answers: Answer) -> list[tuple[Any, ...]]:
        found = rows(taken(*answers), silver.GROUP_SNAPSHOTS)
        names = ("group_id", "state", "first_poll", "end_reason", "superseded_poll")
        return sorted(
            (tuple(row[name] for name in names) for row in found), key=lambda row: row[:3]
        )

    first, _, third, fourth = (answer.poll_id for answer in answers)
    assert told(*answers[:2]) == [
        ("g1", "Stable", first, None, None),
        ("g2", "Stable", first, None, None),
    ]
    assert told(*answers[:3]) == [
        ("g1", "Empty", third, None, None),
        ("g1", "Stable", first, None, third),
        ("g2", "Stable", first, None, None),
    ]
    assert told(*answers)[2:] == [("g2", "Stable", first, "gone", fourth)], (
        "a whole answer does not list it"
    )


def test_a_group_that_is_told_again_has_no_epoch_of_before() -> None:
    told = dict.fromkeys(
        ("group_type", "protocol_type", "state", "topology_epoch", "assignor", "members"), "x"
    ) | {"group_id": "g"}
    known = known_of("groups")
    for epoch, error, now in ((7, None, FIRST), (None, "not_allowed", SECOND)):
        group = told | {"group_epoch": epoch, "target_epoch": epoch, "error": error}
        take("groups", [{"groups": [group]}], None, now, known)
    assert [row["group_epoch"] for row in known.changed.values()] == [7, None]


# --- settings ---


@pytest.mark.parametrize(
    ("told", "min_isr", "unclean"),
    [
        (("2", "TRUE"), 2, True),
        (("2", "false"), 2, False),
        (("", "maybe"), None, None),
        (("x", ""), None, None),
        ((None, None), None, None),
    ],
)
def test_settings_of_a_topic(
    told: tuple[str | None, str | None], min_isr: int | None, unclean: bool | None
) -> None:
    names = "min.insync.replicas", "unclean.leader.election.enable"
    assert settings_of(dict(zip(names, told, strict=True))) == {
        "min_insync_replicas": min_isr,
        "unclean_leader_election_enable": unclean,
    }
    assert settings_of({}) == settings_of(dict.fromkeys(names))


@pytest.mark.parametrize(
    ("source", "is_static"),
    [
        ("STATIC_BROKER_CONFIG", True),
        ("DEFAULT_CONFIG", True),
        ("DYNAMIC_TOPIC_CONFIG", False),
        ("DYNAMIC_DEFAULT_BROKER_CONFIG", False),
    ],
)
def test_no_record_of_the_log_tells_what_is_in_the_brokers_files(
    source: str, is_static: bool
) -> None:
    found = static_configs([{"configs": configs("3", source=source)}, {"configs": None}])
    static = {"unclean.leader.election.enable": "false"}
    assert found == static | ({"min.insync.replicas": "3"} if is_static else {})


def told_by(poll_id: str, topic: str, min_isr: str | None) -> Row:
    return {"poll_id": poll_id, "topic": topic, "configs": configs(min_isr)}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([told_by("s/1", "t", "2"), told_by("s/1", "u", "1")], {}),
        ([told_by("s/1", "t", "3"), told_by("s/1", "u", "1")], {"t": 3}),
        ([told_by("s/1", "t", "1"), told_by("s/1", "u", "1")], {"t": 2}),
        ([told_by("s/1", "u", "1")], {"t": 2}),
        ([told_by("s/1", "t", "2"), told_by("s/1", "u", "1"), told_by("s/1", "v", "4")], {"v": 4}),
        ([told_by("s/1", "t", None), told_by("s/1", "u", "1")], {"t": 2}),
        ([], {"t": 2, "u": 1}),
    ],
    ids=[
        "the same",
        "a higher one",
        "a lower one",
        "not listed",
        "a new topic",
        "not told",
        "none is listed",
    ],
)
def test_topics_whose_settings_may_be_others(told: Sequence[Row], expected: dict[str, int]) -> None:
    of = {"unclean_leader_election_enable": False}
    live = [
        {"topic": "t", "min_insync_replicas": 2, **of},
        {"topic": "u", "min_insync_replicas": 1, **of},
    ]
    assert min_isr_of_changed(["s/1"], told, live) == expected
    assert list(min_isr_of_changed(["s/1"], told, live)) == sorted(expected)


# --- answers beside polls ---


def test_answers_that_tell_something_are_in_the_order_in_which_they_came() -> None:
    def row(record: str, n: int, seconds: int = 0, **more: Any) -> Row:
        at = START + timedelta(seconds=seconds)
        place = {"record": record, "cluster": "c", "poll_id": f"s/{n}"}
        return place | {"answered_at": at, "outcome": "ok"} | more

    found = headers_of(
        [
            row("poll", 1),
            row("answer", 0, 3, kind="quorum"),
            row("answer", 0, 1, kind="groups", outcome="ok: 1 of 2 groups could not be described"),
            row("answer", 0, 2, kind="fenced"),
            row("answer", 0, kind="elr", outcome="failed: timeout"),
            row("answer", 0, kind="configs", outcome="not_allowed"),
            row("answer", 0, kind="offsets"),
            row("answer", 1, kind="elr"),
            row("topic", 1),
            row("poll", 0),
            row("answer", 0, kind="quorum", cluster="d"),
        ]
    )
    assert [(each["poll_id"], [of["kind"] for of in each["answers"]]) for each in found] == [
        ("s/0", ["groups", "fenced", "quorum"]),
        ("s/1", ["elr"]),
    ]
