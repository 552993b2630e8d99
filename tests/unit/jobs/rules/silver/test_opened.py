"""The topics of a large cluster that have to be opened."""

from typing import Any

import pyarrow as pa
import pytest

from jobs.rounds.stage import arrow_schema
from jobs.rules.silver.opened import Opened, known_topics, opened, topics_of
from jobs.rules.silver.state import State
from jobs.rules.takes import Take
from schemas.bronze import METADATA_POLLS
from schemas.silver import TOPIC_CONFIGS, TOPIC_SNAPSHOTS

CLUSTER = {"cluster_id": "id", "cluster": "c"}
POLLS = ("s/1", "s/2")


def bronze(*rows: dict[str, Any]) -> pa.Table:
    given = [{"cluster": "c", "is_key_frame": False} | row for row in rows]
    schema = arrow_schema(METADATA_POLLS)
    return pa.Table.from_pylist(given, schema)


def digest(topic: str, digest: bytes, poll: str = "s/2", partitions: int = 10) -> dict[str, Any]:
    of_poll = {"poll_id": poll, "record": "topic", "topic": topic, "chunk": 0, "present": True}
    return of_poll | {"digest": digest, "digest_version": 1, "partition_count": partitions}


def live(table: Any, *topics: str, **more: object) -> pa.Table:
    rows = [CLUSTER | {"topic": topic} | more for topic in topics]
    return pa.Table.from_pylist(rows, arrow_schema(table))


STATE = State(topic_digests={"same": "1:aa", "other": "1:bb", "older": "0:cc"})


def given(*records: str, **more: Any) -> Take:
    return Take("c", "id", dict.fromkeys(POLLS, records), ("2026-11-01",), 4, **more)


def found(take: Take, *digests: dict[str, Any], state: State = STATE, **more: Any) -> Opened:
    headers = bronze(*({"poll_id": poll, "record": "poll"} for poll in (*POLLS, "s/3")))
    topics = live(TOPIC_SNAPSHOTS, "same", "other", "older", "quiet")
    return opened(take, state, headers=headers, digests=bronze(*digests), topics=topics, **more)


@pytest.mark.parametrize(
    ("told", "topics", "partitions"),
    [
        ([digest("same", b"\xaa")], [], 0),
        ([digest("other", b"\xaa")], ["other"], 10),
        # Another version of digests says nothing of what is the same.
        ([digest("older", b"\xcc")], ["older"], 10),
        ([digest("new", b"\xdd", partitions=7), digest("same", b"\xaa")], ["new"], 7),
        # It was another one, and is as before: each answer counts.
        ([digest("same", b"\xff", "s/1"), digest("same", b"\xaa")], ["same"], 20),
        ([{**digest("same", b"\xaa"), "present": False}], ["same"], 10),
        # That of a poll that the round does not read.
        ([digest("other", b"\xff", "s/3")], [], 0),
        ([digest("other", b"\xff") | {"partition_count": None}], ["other"], 0),
    ],
)
def test_topics_are_opened_of_which_an_answer_says_something_new(
    told: list[dict[str, Any]], topics: list[str], partitions: int
) -> None:
    made = found(given("topic"), *told)
    assert (sorted(made.topics), made.partitions, dict(made.min_isr)) == (topics, partitions, {})
    assert made.headers["poll_id"].to_pylist() == [*POLLS]


def test_topics_that_are_missing_are_opened() -> None:
    state = State(topic_digests=STATE.topic_digests, missing=("quiet",))
    assert found(given("topic"), state=state).topics == ["quiet"]


def test_a_cluster_of_another_kind_than_before_is_opened_whole() -> None:
    take = given("topic", kind="redpanda")
    assert sorted(found(take, digest("same", b"\xaa")).topics) == [
        *("older", "other", "quiet", "same")
    ]


def test_a_first_answer_opens_nothing_and_its_header_is_known() -> None:
    made = found(given("groups", first_poll="s/2"), digest("other", b"\xff"))
    assert (made.topics, made.partitions, made.min_isr) == ([], 0, {})
    assert made.headers["poll_id"].to_pylist() == ["s/2"]


def setting(topic: str, min_isr: int, poll: str = "s/1") -> dict[str, Any]:
    value = {"value": str(min_isr), "source": "DYNAMIC_TOPIC_CONFIG"}
    unclean = {"value": "false", "source": "DEFAULT_CONFIG"}
    configs = {"min.insync.replicas": value, "unclean.leader.election.enable": unclean}
    return {"poll_id": poll, "record": "configs", "topic": topic, "configs": configs}


def test_topics_whose_settings_change_have_their_highest_min_isr() -> None:
    configs = bronze(setting("same", 2), setting("other", 3))
    settings = live(
        TOPIC_CONFIGS, "same", "other", min_insync_replicas=2, unclean_leader_election_enable=False
    )
    polls = {"s/1": ("topic", "configs"), "s/2": ("topic",)}
    take = Take("c", "id", polls, ("2026-11-01",), 4)
    assert dict(found(take, configs=configs, settings=settings).min_isr) == {"other": 3}
    assert dict(found(take, configs=configs).min_isr) == {"same": 2, "other": 3}


NONE = pa.table({})


def test_what_is_brought_is_named_by_cluster() -> None:
    """A topic whose settings may change is not opened for that."""
    one = Opened(given(), STATE, NONE, ["a"], 3, {"a": 2, "b": 1})
    other = Opened(given(), STATE, NONE, ["c"], 3, {})
    rows = topics_of({"x": one, "y": other}).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        ("x", "a", True, 2),
        ("x", "b", False, 1),
        ("y", "c", True, None),
    ]
    assert len(topics_of({})) == 0


def test_of_other_clusters_all_live_rows_of_topics_are_known() -> None:
    rows = pa.concat_tables(
        live(TOPIC_SNAPSHOTS, "a", "b", cluster=alias) for alias in ("x", "y", "z")
    )
    large = {
        "x": Opened(given(), STATE, NONE, ["a"], 3, {"b": 1}),
        "y": Opened(given(), STATE, NONE, [], 0, {}),
    }
    kept = known_topics(rows, large).select(["cluster", "topic"]).to_pylist()
    assert sorted(tuple(row.values()) for row in kept) == [("x", "a"), ("z", "a"), ("z", "b")]
