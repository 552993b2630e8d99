import gc
import itertools
import math
import weakref
from dataclasses import replace
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source import records
from metadata_source.columns.polls import OFFSETS, POLLS
from metadata_source.enrichment import Answer, Rows
from metadata_source.images import Image, filtered
from metadata_source.options import TopicFilter
from metadata_source.poll import OVERLAPPED, Poll
from metadata_source.protocol.digest import topic_digests
from metadata_source.pseudonyms import Pseudonyms
from metadata_source.records import SCHEMAS, BatchRecords, Planned, entity_rows
from tests.support.answered_polls import SENT, answer, rows
from tests.support.examples import examples

DAY = date(2026, 5, 28)
EVERY = TopicFilter()


def planned(n: int = 0) -> Planned:
    return Planned("20261121T010203Z-00000000", n, "east", DAY, 1_000, 1_780_000_000_000 + n)


def test_a_key_frame_holds_every_topic():
    header, *topics = rows(BatchRecords(EVERY).rows(planned(3), answer({"a": 2, "b": 0})))
    assert (header["record"], header["outcome"], header["is_key_frame"]) == ("poll", "ok", True)
    assert (header["poll_id"], header["n"]) == ("20261121T010203Z-00000000/000000000003", 3)
    assert (header["topic_count"], header["partition_count"], header["controller_id"]) == (2, 2, 1)
    assert header["brokers"] == [{"broker_id": 1, "host": "one", "port": 9092, "rack": "r"}]
    assert header["scheduled_at"] == datetime(2026, 5, 28, 20, 26, 40, 3000, tzinfo=UTC)
    assert header["topic"] is header["present"] is header["partitions"] is None
    assert [
        (row["topic"], row["chunk"], row["partition_count"], row["present"]) for row in topics
    ] == [("a", 0, 2, True), ("b", 0, 0, True)]
    assert [len(row["partitions"]) for row in topics] == [2, 0]
    assert topics[0]["partitions"][1] == {
        "partition": 1,
        "error_code": 0,
        "leader": 1,
        "leader_epoch": 7,
        "replicas": [1, 2, 1],
        "isr": [2, 1],
        "offline_replicas": [],
    }
    assert {len(row["digest"]) for row in topics} == {16}
    assert {row["day"] for row in (header, *topics)} == {DAY}
    assert len(header["digest"]) == 16
    only_on_headers = [
        name for name in POLLS.names if header[name] is not None and topics[0][name] is None
    ]
    assert "sent_at" in only_on_headers
    assert not {"cluster_id", "received_at", "poll_id"} & set(only_on_headers)


def kept(batch: BatchRecords, n: int, poll: Poll, **more: bool) -> list[dict]:
    found = rows(batch.rows(planned(n), poll, **more))
    batch.kept()
    return found


def test_later_polls_hold_what_changed_and_what_is_gone():
    batch = BatchRecords(EVERY)
    kept(batch, 0, answer({"a": 1, "b": [1, 1], "c": 1}))
    header, *topics = kept(batch, 1, answer({"d": 1, "b": [1, 2], "a": 1}))
    assert (header["is_key_frame"], header["topic_count"]) == (False, 3)
    assert [(row["topic"], row["present"]) for row in topics] == [
        ("d", True),
        ("b", True),
        ("c", False),
    ]
    gone = topics[-1]
    assert gone["cluster_id"] == "the-cluster"
    assert {gone[name] for name in POLLS.names[POLLS.names.index("present") + 1 :]} == {None}
    assert len(kept(batch, 2, answer({"d": 1, "b": [1, 2], "a": 1}))) == 1
    header, *topics = kept(batch, 3, answer({"d": 1, "b": [1, 2]}), is_key_frame=True)
    assert (header["is_key_frame"], [(row["topic"], row["present"]) for row in topics]) == (
        True,
        [("d", True), ("b", True)],
    )
    assert len(kept(batch, 4, answer({"d": 1, "b": [1, 2]}))) == 1


def test_rows_that_were_not_kept_never_count_as_before():
    """The spool had no room for them, say."""
    batch = BatchRecords(EVERY)
    assert rows(batch.rows(planned(0), answer({"a": 1})))[0]["is_key_frame"]
    header, *_ = kept(batch, 1, answer({"a": 1, "b": 1}))
    assert header["is_key_frame"], "the first one was not kept"
    rows(batch.rows(planned(2), answer({"a": [2], "b": 1})))
    rows(batch.rows(planned(3), OVERLAPPED))
    batch.kept()
    assert [row["topic"] for row in kept(batch, 4, answer({"a": [2], "b": 1}))[1:]] == ["a"]


def test_another_cluster_is_recorded_whole():
    batch = BatchRecords(EVERY)
    kept(batch, 0, answer({"a": 1}))
    other = answer({"a": 1})
    other = replace(other, cluster_id="other", metadata=replace(other.metadata, cluster_id="other"))
    assert [kept(batch, n, other)[0]["is_key_frame"] for n in (1, 2)] == [True, False]


def test_a_failed_poll_is_its_header_and_leaves_the_key_frame_to_the_next():
    batch = BatchRecords(EVERY)
    (header,) = rows(batch.rows(planned(0), OVERLAPPED))
    assert (header["outcome"], header["error_kind"], header["attempts"]) == (
        "failed",
        "overlapped",
        0,
    )
    assert (
        header["is_key_frame"]
        is header["topic_count"]
        is header["brokers"]
        is header["received_at"]
        is None
    )
    assert header["digest"] is header["digest_version"] is None
    wrong = replace(
        answer({"a": 1}),
        metadata=None,
        image=None,
        error_kind="wrong_cluster",
        error="one:9092: ...",
    )
    (header,) = rows(batch.rows(planned(1), wrong))
    assert (header["cluster_id"], header["topic_count"]) == ("the-cluster", None)
    header, _ = rows(batch.rows(planned(2), answer({"a": 1})))
    assert header["is_key_frame"]


ASKED, ANSWERED = (
    datetime(2026, 11, 1, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 0, 0, 2, tzinfo=UTC),
)


def told(kind: str, values: Rows) -> Answer:
    return Answer(kind, "ok", ASKED, ANSWERED, values)


def test_answers_beside_a_poll_have_headers_and_rows_of_their_own():
    broker = {"broker_id": 4, "host": "four", "port": 9092, "rack": None}
    quorum = {"leader_id": 1, "leader_epoch": 2, "voters": [1], "observers": []}
    min_isr = {"value": "2", "source": "STATIC_BROKER_CONFIG"}
    moved = [{"partition": 0, "adding": [3], "removing": []}]
    elr = [{"partition": 0, "elr": [2], "last_known_elr": []}]
    answers = [
        told("configs", Rows([[("min.insync.replicas", min_isr)], None], ["a", "b"])),
        told("reassignments", Rows([moved], ["a"])),
        told("quorum", Rows([quorum])),
        told("elr", Rows([elr], ["a"])),
        told("fenced", Rows([[broker]])),
    ]
    header, _, *others = rows(BatchRecords(EVERY).rows(planned(), answer({"a": 1}), answers))
    values = {row["kind"]: row for row in others if row["record"] == "answer"}
    assert [
        (row["record"], row["topic"], row["chunk"], row[row["record"]])
        for row in others
        if not row["kind"]
    ] == [
        ("configs", "a", 0, [("min.insync.replicas", min_isr)]),
        ("configs", "b", 0, None),
        ("reassignments", "a", 0, moved),
        ("quorum", None, 0, quorum),
        ("elr", "a", 0, elr),
        ("fenced", None, 0, [broker]),
    ]
    assert [row["kind"] or row["record"] for row in others] == [
        "configs",
        "configs",
        "configs",
        "reassignments",
        "reassignments",
        "quorum",
        "quorum",
        "elr",
        "elr",
        *("fenced", "fenced"),
    ], "each header comes before its rows"
    assert {kind: len(row["digest"]) for kind, row in values.items()} == {
        each.enrichment: 16 for each in answers
    }
    key = ("poll_id", "n", "cluster", "day", "cluster_id")
    assert {tuple(row[name] for name in key) for row in others} == {
        tuple(header[name] for name in key)
    }
    names = {name for row in values.values() for name, value in row.items() if value is not None}
    of_answers = {
        "kind",
        "asked_at",
        "answered_at",
        "outcome",
        "digest",
        "interval_ms",
        "scheduled_at",
    }
    assert names == {*key, "stream", "record", "chunk", *of_answers}
    times = {
        tuple(row[name] for name in ("asked_at", "answered_at", "outcome"))
        for row in values.values()
    }
    assert times == {(ASKED, ANSWERED, "ok")}
    filled = {
        name
        for row in others
        if not row["kind"]
        for name, value in row.items()
        if value is not None
    }
    assert filled == {*key, "stream", "record", "topic", "chunk", *values}


def test_columns_beside_an_answer_have_no_digest_but_what_stands_out_has():
    told_of = {"leader_id": 1, "leader_epoch": 2, "voters": [1, 2], "observers": []}

    def stored(end, behind=()):
        replicas = [
            {"replica_id": n, "is_voter": True, "is_behind": n in behind, "log_end_offset": end}
            for n in (1, 2)
        ]
        answer_of = Rows(
            [told_of], beside={"quorum_replicas": [replicas]}, stands_out=tuple(behind)
        )
        _, beside, row = rows(
            BatchRecords(EVERY).rows(planned(), answer({}), [told("quorum", answer_of)])
        )
        ends = [each["log_end_offset"] for each in row["quorum_replicas"]]
        assert (row["quorum"], ends) == (told_of, [end, end])
        return beside["digest"]

    assert stored(7) == stored(8) != stored(8, behind=(2,)) == stored(9, behind=(2,))


def test_groups_take_several_rows_and_their_clients_get_pseudonyms():
    member = {
        "member_id": "app-6ba7b810-9dad-41d1-80b4-00c04fd430c8",
        "client_id": "app",
        "client_host": "/10.0.0.7",
    }
    chunks = [
        [{"group_id": "a", "members": [member]}, {"group_id": "b", "error": "not_allowed"}],
        [{"group_id": "c"}],
    ]
    key = Pseudonyms("key")
    for pseudonyms, client in ((None, str), (key, key.of)):
        batches = BatchRecords(EVERY, pseudonyms).rows(
            planned(), answer({}), [told("groups", Rows(chunks))]
        )
        _, beside, *others = rows(batches)
        assert (beside["record"], beside["kind"]) == ("answer", "groups")
        assert [(row["record"], row["topic"], row["chunk"]) for row in others] == [
            ("groups", None, 0),
            ("groups", None, 1),
        ]
        assert [group["group_id"] for row in others for group in row["groups"]] == ["a", "b", "c"]
        (stored,) = others[0]["groups"][0]["members"]
        assert (stored["client_id"], stored["client_host"]) == (client("app"), client("/10.0.0.7"))
        assert stored["member_id"].startswith(client("app"))
        assert others[0]["groups"][1]["members"] is None


def test_offsets_have_rows_and_no_digest_and_the_headers_say_of_which_groups():
    found = [
        {"group_id": "a", "topic": "t", "partition": n, "committed_offset": n} for n in range(3)
    ]
    values = pa.array([found[:2], found[2:]], OFFSETS)
    for key in (None, Pseudonyms("key")):
        records = BatchRecords(EVERY, key, "a.*")
        header, beside, *others = rows(
            records.rows(planned(), answer({}), [told("offsets", Rows(values))])
        )
        assert (beside["kind"], beside["outcome"], beside["digest"]) == ("offsets", "ok", None)
        assert header["groups_pattern"] == beside["groups_pattern"] == "a.*"
        assert [(row["record"], row["topic"], row["chunk"], row["offsets"]) for row in others] == [
            ("offsets", None, n, row) for n, row in enumerate(values.to_pylist())
        ]


def test_a_question_that_was_refused_has_a_header_alone():
    refused = [
        Answer("elr", "not_allowed", ASKED),
        Answer("quorum", "failed: put off: no time is left"),
    ]
    _, _, *beside = rows(BatchRecords(EVERY).rows(planned(), answer({"a": 1}), refused))
    names = ("record", "kind", "outcome", "asked_at", "answered_at", "digest")
    assert [tuple(row[name] for name in names) for row in beside] == [
        ("answer", "elr", "not_allowed", ASKED, None, None),
        ("answer", "quorum", "failed: put off: no time is left", None, None, None),
    ]
    assert {
        row["record"] for row in rows(BatchRecords(EVERY).rows(planned(), answer({"a": 1})))
    } == {"poll", "topic"}


def digest_of(poll: Poll, topic_filter: TopicFilter = EVERY) -> bytes:
    header, *_ = rows(BatchRecords(topic_filter).rows(planned(), poll))
    assert header["digest_version"] == 1
    return header["digest"]


def test_a_header_has_the_same_digest_until_the_answer_says_something_else():
    quiet = answer({"a": 2, "b": [1, 2]})
    batch = BatchRecords(EVERY)
    polls = (
        quiet,
        replace(
            answer({"b": [1, 2], "a": 2}), sent_at=None, latency_ms=9.0, broker_id=3, attempts=2
        ),
    )
    headers = [kept(batch, n, poll)[0] for n, poll in enumerate(polls)]
    assert [header["is_key_frame"] for header in headers] == [True, False]
    assert headers[0]["digest"] == headers[1]["digest"] == digest_of(quiet)
    others = [
        digest_of(answer({"a": 2, "b": [1, 1]})),
        digest_of(answer({"a": 2})),
        digest_of(answer({"a": 2, "b": [1, 2], "c": 0})),
        digest_of(answer({"b": 2, "a": [1, 2]})),
        digest_of(replace(quiet, api_version=11)),
        digest_of(replace(quiet, metadata_version_level=25)),
        digest_of(replace(quiet, elr_version_level=1)),
        digest_of(quiet, TopicFilter(topics=("a", "b"))),
        digest_of(quiet, TopicFilter(pattern=".*")),
    ]
    assert len({headers[0]["digest"], *others}) == 1 + len(others)


def test_the_digest_of_an_answer_beside_a_poll_is_that_of_the_rows_that_are_stored():
    def digest(kind: str, values: Rows, pseudonyms: Pseudonyms | None = None) -> bytes:
        batches = BatchRecords(EVERY, pseudonyms).rows(planned(), answer({}), [told(kind, values)])
        (found,) = (row["digest"] for row in rows(batches) if row["record"] == "answer")
        return found

    moved = [
        [{"partition": 0, "adding": [3], "removing": []}],
        [{"partition": 1, "adding": [], "removing": [2]}],
    ]
    found = [
        digest("reassignments", Rows(moved, ["a", "b"])),
        digest("reassignments", Rows(moved[::-1], ["a", "b"])),
        digest("reassignments", Rows(moved, ["a", "c"])),
        digest("reassignments", Rows(moved[:1], ["a"])),
        digest("reassignments", Rows([], [])),
    ]
    assert found[0] == digest("reassignments", Rows(moved, ["a", "b"]))
    assert len(set(found)) == len(found)
    open_ = {"transactional_id": "a", "started_at": datetime(2026, 11, 1, tzinfo=UTC)}
    later = open_ | {"started_at": datetime(2026, 11, 2, tzinfo=UTC)}
    assert digest("transactions", Rows([[open_]])) != digest("transactions", Rows([[later]]))

    groups = Rows(
        [[{"group_id": "g", "members": [{"member_id": "app-1", "client_host": "/10.0.0.7"}]}]]
    )
    plain, keyed = digest("groups", groups), digest("groups", groups, Pseudonyms("key"))
    assert plain != keyed
    assert keyed != digest("groups", groups, Pseudonyms("another key"))
    assert keyed == digest("groups", groups, Pseudonyms("key"))


def test_an_answer_is_let_go_before_anything_is_asked_beside_it():
    held = []

    def ask():
        gc.collect()
        held.append(watched() is not None)
        yield from ()

    poll = answer({"a": 1})
    watched = weakref.ref(poll.metadata.partitions)
    batches = BatchRecords(EVERY).rows(planned(), poll, ask())
    del poll
    for _ in batches:
        pass
    assert held == [False]


@settings(max_examples=examples(20))
@given(
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 7]), max_size=8),
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 7]), max_size=8),
)
def test_the_polls_of_a_batch_add_up_to_what_was_answered(before, after):
    """Chunks of 3 partitions here, so that topics of several chunks stay small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "CHUNK_PARTITIONS", 3)
        patch.setattr(records, "BATCH_PARTITIONS", 5)
        patch.setattr(records, "BATCH_ROWS", 4)
        batch, known = BatchRecords(EVERY), {}
        for n, counts in enumerate((before, after)):
            poll = answer({f"t{index}": count for index, count in enumerate(counts)})
            batches = list(batch.rows(planned(n), poll))
            batch.kept()
            for each in batches[:-1]:
                assert (
                    each.num_rows == 1
                    or sum(len(parts or ()) for parts in each["partitions"].to_pylist()) <= 5
                )
                assert each.num_rows <= 4
            _, *topics = rows(batches)
            for name, group in itertools.groupby(topics, lambda row: row["topic"]):
                chunks = list(group)
                assert [row["chunk"] for row in chunks] == list(range(len(chunks)))
                if not chunks[0]["present"]:
                    del known[name]
                    continue
                count = chunks[0]["partition_count"]
                assert len(chunks) == max(1, math.ceil(count / 3))
                partitions = [partition for row in chunks for partition in row["partitions"]]
                assert [partition["partition"] for partition in partitions] == list(range(count))
                known[name] = (count, {row["digest"] for row in chunks})
            answered = zip(
                poll.metadata.topics["topic"].to_pylist(),
                topic_digests(poll.metadata).to_pylist(),
                strict=True,
            )
            assert known == {
                name: (count, {digest})
                for (name, digest), count in zip(answered, counts, strict=True)
            }


@pytest.mark.parametrize(
    ("topic_filter", "covered"),
    [
        (TopicFilter(pattern="a.?"), ["a", "ab"]),
        (TopicFilter(pattern="a|b"), ["a", "b"]),
        (TopicFilter(topics=("b", "absent")), ["b"]),
        (TopicFilter(), ["a", "ab", "b", "xa"]),
    ],
)
def test_filters_cover_whole_names_and_come_before_counts(topic_filter, covered):
    poll = answer({"a": 1, "ab": 2, "b": 3, "xa": 4})
    metadata = filtered(poll.metadata, topic_filter)
    poll = replace(poll, metadata=metadata, image=Image.of(metadata))
    header, *topics = rows(BatchRecords(topic_filter).rows(planned(), poll))
    assert [row["topic"] for row in topics] == covered
    assert header["topic_count"] == len(covered)
    assert header["partition_count"] == sum(len(row["partitions"]) for row in topics)
    assert header["topic_filter"] == topic_filter.to_json()


def test_topic_errors_are_data():
    header, topic = rows(BatchRecords(EVERY).rows(planned(), answer({"gone": 0}, error_code=3)))
    assert (header["outcome"], topic["error_code"], topic["partitions"]) == ("ok", 3, [])


def test_an_empty_cluster_has_a_header():
    (header,) = rows(BatchRecords(EVERY).rows(planned(), answer({})))
    assert (
        header["outcome"],
        header["is_key_frame"],
        header["topic_count"],
        header["partition_count"],
    ) == ("ok", True, 0, 0)


def test_what_a_version_lacks_is_null():
    header, topic = rows(BatchRecords(EVERY).rows(planned(), answer({"a": 1}, version=0)))
    assert (
        header["cluster_id"]
        is header["controller_id"]
        is topic["topic_id"]
        is topic["is_internal"]
        is None
    )
    assert (
        topic["partitions"][0]["leader_epoch"] is topic["partitions"][0]["offline_replicas"] is None
    )


@pytest.mark.parametrize(("entity", "expected"), [("brokers", 1), ("topics", 2), ("partitions", 4)])
def test_entities_are_the_decoders_columns(entity, expected):
    (batch,) = entity_rows(entity, "east", answer({"a": 3, "b": 1}))
    assert batch.schema.equals(SCHEMAS[entity])
    batch.validate(full=True)
    assert batch.num_rows == expected
    first = batch.slice(0, 1).to_pylist()[0]
    assert (first["cluster"], first["cluster_id"], first["sent_at"]) == (
        "east",
        "the-cluster",
        SENT,
    )
