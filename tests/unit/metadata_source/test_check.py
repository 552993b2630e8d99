"""What `check` computes of an answer, and the lines for bad input."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from jobs.rules.gold.isr import BOUNDED_BY_REPLICAS_FROM_LEVEL
from kafka_metadata_history import check
from kafka_metadata_history.command import NAME, exit_status
from metadata_source.check import (
    TROUBLES,
    ClusterState,
    _describe_configs,
    broker_table,
    partition_troubles,
    read_options,
    report,
    topics_in_trouble,
)
from metadata_source.client_file import read_client_file
from metadata_source.errors import PollError, stumbled
from metadata_source.kafka_constants import EXACT_FROM_LEVEL, TRUSTED_EPOCHS_VERSION
from metadata_source.kinds import KAFKA
from metadata_source.options import parse
from metadata_source.poller import Poll
from metadata_source.probes import MinIsr, Permission
from metadata_source.protocol.metadata import ClusterMetadata

NODES = pa.list_(pa.int32())


def metadata(
    *topics: tuple[str, list[tuple[int, int, list[int], list[int]]]], cluster_id: str = "id"
) -> ClusterMetadata:
    """An answer, of a version that says no more, with brokers 1 and 2; a partition is error code,
    leader, replicas, ISR.
    """
    rows = [
        (name, number, *partition)
        for name, partitions in topics
        for number, partition in enumerate(partitions)
    ]
    names, numbers, errors, leaders, replicas, isrs = zip(*rows, strict=True) if rows else ((),) * 6
    return ClusterMetadata(
        cluster_id=cluster_id,
        controller_id=1,
        throttle_time_ms=0,
        error_code=0,
        cluster_authorized_operations=None,
        brokers=pa.table(
            {
                "broker_id": pa.array([1, 2], pa.int32()),
                "host": ["one", "two"],
                "port": pa.array([9092, 9093], pa.int32()),
                "rack": pa.array(["a", None], pa.string()),
            }
        ),
        topics=pa.table(
            {
                "topic": pa.array([name for name, _ in topics], pa.string()),
                "error_code": pa.array([0] * len(topics), pa.int32()),
                "partition_count": pa.array(
                    [len(partitions) for _, partitions in topics], pa.int32()
                ),
            }
        ),
        partitions=pa.table(
            {
                "topic": pa.array(names, pa.string()).dictionary_encode(),
                "partition": pa.array(numbers, pa.int32()),
                "error_code": pa.array(errors, pa.int32()),
                "leader": pa.array(leaders, pa.int32()),
                "replicas": pa.array(replicas, NODES),
                "isr": pa.array(isrs, NODES),
                "offline_replicas": pa.nulls(len(rows), NODES),
            }
        ),
    )


SERVERS = {"clusters": json.dumps({"orders": {"kafka.bootstrap.servers": "a:9092"}})}
BAD = metadata(
    ("good", [(0, 1, [1, 2, 3], [1, 2, 3]), (0, 2, [2, 1, 3], [3, 2, 1])]),
    ("bad", [(0, 2, [1, 2, 3], [2]), (5, -1, [3], [3]), (72, -1, [2, 3], [2, 3])]),
    ("odd", [(0, 1, [1, 2], [1, 2]), (5, -1, [], [])]),
)
MIN_ISR = pa.array([2, 2, None], pa.int32())
NOTHING = MinIsr()


def test_troubles_of_each_partition():
    assert partition_troubles(state(BAD, MIN_ISR)).select(list(TROUBLES)).to_pydict() == {
        "offline": [False, False, False, True, False, False, True],
        "under_min_isr": [False, False, True, True, False, None, None],
        "at_min_isr": [False, False, False, False, True, None, None],
        "under_replicated": [False, False, True, False, False, False, False],
        "not_preferred": [False, False, True, False, False, False, None],
    }


def test_members_of_an_isr_decide_and_not_its_size():
    isrs = [[1, 1], [2, 1], [3, 1], [1, 2, 3], []]
    answered = metadata(("t", [(0, 1, [1, 2], isr) for isr in isrs]))
    troubles = partition_troubles(state(answered, pa.array([None], pa.int32())))
    assert troubles["under_replicated"].to_pylist() == [True, False, True, False, True]


def test_topics_in_trouble_come_worst_first_and_good_ones_not_at_all():
    assert topics_in_trouble(partition_troubles(state(BAD, MIN_ISR))).to_pylist() == [
        {
            "topic": "bad",
            "offline": 1,
            "under_min_isr": 2,
            "at_min_isr": 1,
            "under_replicated": 1,
            "not_preferred": 1,
        },
        {
            "topic": "odd",
            "offline": 1,
            "under_min_isr": None,
            "at_min_isr": None,
            "under_replicated": 0,
            "not_preferred": 0,
        },
    ]


def test_brokers_that_hold_replicas_and_are_not_listed_are_shown():
    rows = [tuple(row.values()) for row in broker_table(BAD).to_pylist()]
    assert rows == [
        (1, "one", 9092, "a", 2, 3, 4),
        (2, "two", 9093, None, 2, 2, 5),
        (3, None, None, None, 0, 1, 5),
    ]


def state(
    answer: ClusterMetadata,
    min_isr: pa.Array,
    kind: str = KAFKA,
    answered: MinIsr = NOTHING,
    highest: int | None = BOUNDED_BY_REPLICAS_FROM_LEVEL - 1,
) -> ClusterState:
    """Of brokers whose software is of a version before 3.7, or as `highest` says."""
    poll = Poll(
        metadata_version_highest=highest,
        latency_ms=1.5,
        response_bytes=4321,
        api_version=13,
        broker="one:9092",
        broker_id=1,
        elr_version_level=0,
    )
    return ClusterState(poll, answer, min_isr, check.effective, answered, kind)


@pytest.mark.parametrize(
    ("highest", "under", "at"),
    [
        (BOUNDED_BY_REPLICAS_FROM_LEVEL, [False, True], [True, False]),
        (BOUNDED_BY_REPLICAS_FROM_LEVEL - 1, [True, True], [False, False]),
        (None, [None, None], [None, None]),
    ],
)
def test_a_min_isr_above_the_number_of_replicas_counts_as_in_history(highest, under, at):
    answered = metadata(("t", [(0, 1, [1, 2], [1, 2]), (0, 1, [1, 2], [1])]))
    of = state(answered, pa.array([3], pa.int32()), highest=highest)
    troubles = partition_troubles(of)
    assert troubles["under_min_isr"].to_pylist() == under
    assert troubles["at_min_isr"].to_pylist() == at
    unknown = "unknown for 2 partitions: set above their replicas, and no broker tells its highest"
    assert (unknown in "\n".join(report(of))) == (highest is None)


def test_unknown_is_said_with_what_it_needs():
    of = state(BAD, MIN_ISR, answered=MinIsr({"good": 2, "bad": 2}, {29: 1}))
    text = "\n".join(report(of))
    assert "unknown for 2 partitions: needs DESCRIBE_CONFIGS on their topics" in text
    assert _describe_configs(of).answer == "missing: DESCRIBE_CONFIGS on 1 of 3 topics"
    assert "metadata.version level unknown, ELR level 0" in text
    assert "broker 1 at one:9092 in 1.5 ms: 4,321 bytes, Metadata v13" in text


@pytest.mark.parametrize(
    ("version", "level", "sure", "may_migrate"),
    [
        (13, EXACT_FROM_LEVEL, "exact, but for reassignments", False),
        (12, EXACT_FROM_LEVEL, "exact, but for reassignments", True),
        (12, EXACT_FROM_LEVEL - 1, "upper bounds: below level 12", False),
        (12, None, "upper bounds: metadata.version is unknown, as with ZooKeeper", False),
        (TRUSTED_EPOCHS_VERSION, None, "upper bounds: ", False),
        (
            TRUSTED_EPOCHS_VERSION - 1,
            20,
            "unknown: leader epochs of Metadata v8 cannot be trusted",
            False,
        ),
    ],
)
def test_how_sure_counts_of_leader_changes_are(version, level, sure, may_migrate):
    """By the thresholds of the rules that count."""
    polled = state(BAD, MIN_ISR)
    polled = replace(
        polled, poll=replace(polled.poll, api_version=version, metadata_version_level=level)
    )
    text = "\n".join(report(polled))
    assert f"counts of leader changes: {sure}" in text
    assert ("`migrating: true`" in text) == may_migrate


def test_at_most_twenty_topics_are_listed():
    many = metadata(*((f"t{n:02d}", [(5, -1, [1], [1])]) for n in range(23)))
    lines = list(report(state(many, pa.nulls(23, pa.int32()))))
    assert [line.split()[0] for line in lines if line.startswith("t") and line[1].isdigit()] == [
        f"t{n:02d}" for n in range(20)
    ]
    assert "... and 3 more" in lines


def test_partitions_that_need_all_their_replicas_are_set_apart():
    few = metadata(
        ("scratch", [(0, 1, [1], [1]), (0, 2, [2], [2])]), ("orders", [(0, 1, [1, 2, 3], [1, 3])])
    )
    lines = [line.strip() for line in report(state(few, pa.array([1, 2], pa.int32())))]
    (line,) = (each for each in lines if each.startswith("at min ISR "))
    assert (
        line.split(maxsplit=3)[3]
        == "3  2 of them with all replicas in sync: they have no more than they need"
    )


def test_a_feature_is_named_as_in_the_configuration_with_whether_it_is_on(monkeypatch):
    features = [
        Permission(name, "READ", "allowed")
        for name in ("min ISR", "consumer groups", "rebalance history")
    ]
    monkeypatch.setattr(check, "check", lambda *_: (state(BAD, MIN_ISR), features))
    (found,) = check.checked(parse({**SERVERS, "enrich": "groups"}, "stream"), read=["groupLog"])
    rows = [line.split() for line in check.lines(found, whole=True)]
    begin = rows.index(["feature", "configuration", "on", "needs", "answer"])
    assert rows[begin + 2 : begin + 6] == [
        ["min", "ISR", "enrich:", "configs", "no", "READ", "allowed"],
        ["consumer", "groups", "enrich:", "groups,", "offsets", "yes", "READ", "allowed"],
        ["rebalance", "history", "groupLog", "yes", "READ", "allowed"],
        [
            "controllers'",
            "log",
            "clusterLog",
            "no",
            "CLUSTER_ACTION",
            "on",
            "the",
            "cluster",
            "not",
            "asked",
        ],
    ]


def test_a_lake_that_cannot_be_written_is_found_by_check(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "check", lambda *_: (state(BAD, MIN_ISR), []))
    (tmp_path / "file").touch()
    config = tmp_path / "config.yaml"
    for lake, status in (("lakes/lake", 0), ("file/lake", 3)):
        config.write_text(
            f"lake: {lake}\nclusters: {{orders: {{kafka.bootstrap.servers: 'a:9092'}}}}\n"
        )
        assert exit_status(["check", "--config", str(config)]) == status
        place = (
            f"lake {tmp_path}/{lake}: this user cannot write there: {tmp_path}/file is no folder"
        )
        assert (place in capsys.readouterr().out) == bool(status)
    assert {each.name for each in tmp_path.iterdir()} == {"file", "config.yaml"}, (
        "nothing is written"
    )


@pytest.mark.parametrize(
    ("lake", "needs"),
    [
        ("s3a://b/lake", ("with the jars for S3", "hadoop-aws")),
        ("abfss://a@b/lake", ("with the jars and settings for it", "hadoop-azure")),
        ("lake", ()),
    ],
)
def test_a_lake_elsewhere_is_named_with_what_it_needs(tmp_path, monkeypatch, capsys, lake, needs):
    """`run` would refuse one without: nobody should find out then."""
    monkeypatch.setattr(check, "check", lambda *_: (state(BAD, MIN_ISR), []))
    monkeypatch.setattr("schemas.lake.Lake.is_object_store", False)  # nobody reads one here
    config = tmp_path / "config.yaml"
    for asked in (
        ["init", "--alias", "orders", "--bootstrap", "a:9092", "--lake", lake],
        ["check"],
    ):
        assert exit_status([*asked, "--config", str(config)]) == 0
        said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("lake ")]
        text = "; neither spark.packages nor pyspark has ".join(needs)
        line = (
            f"lake {lake}: not written to; the jobs need Spark {text}: docs/spark-clusters.md, "
            "Lakes elsewhere"
        )
        assert said == ([line] if needs else [])


def test_an_empty_cluster_is_fine():
    lines = list(report(state(metadata(), pa.nulls(0, pa.int32()))))
    assert "no topics: an empty cluster, or none that this user may see" in lines


def test_a_password_that_nothing_hides_is_a_warning(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ALICE_PASSWORD", "alice-secret")
    config = tmp_path / "client.yaml"
    config.write_text(
        "kafka.security.protocol: SASL_PLAINTEXT\nkafka.sasl.mechanism: PLAIN\n"
        "kafka.sasl.username: alice\n"
        "kafka.sasl.password: env:ALICE_PASSWORD\n"
    )
    assert exit_status(["check", "--bootstrap", "127.0.0.1:1", "--client", str(config)]) == 3
    output, warning = capsys.readouterr()
    assert warning == (
        "cluster 127.0.0.1:1: warning: the password crosses the network unencrypted: set "
        "kafka.security.protocol to SASL_SSL\n"
    )
    assert output.startswith("127.0.0.1:1: failed: unreachable: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "kafka.securty.protocol: SSL",
            "unknown option 'kafka.securty.protocol': did you mean 'kafka.security.protocol'?",
        ),
        (
            "kafka.bootstrap.servers: a:1",
            "kafka.bootstrap.servers: contradicts --bootstrap, which says where to ask",
        ),
        ("clusters: x", "clusters: one cluster is looked at; give its kafka.* options alone"),
        ("- a", "not a mapping of kafka.* options to values"),
        ("kafka.client.id: [a]", "kafka.client.id: neither text nor a whole number"),
        ("a: b: c", "not YAML: mapping values are not allowed here"),
    ],
)
def test_bad_configurations_are_one_line(tmp_path, capsys, content, said):
    config = tmp_path / "client.yaml"
    config.write_text(content)
    assert exit_status(["check", "--bootstrap", "one:9092", "--client", str(config)]) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith(f"{NAME}: {config}: {said}")
    assert errors.count("\n") == 1


def test_a_missing_file_and_a_bad_address_are_one_line(tmp_path, capsys):
    assert (
        exit_status(["check", "--bootstrap", "one:9092", "--client", str(tmp_path / "none.yaml")])
        == 1
    )
    assert exit_status(["check", "--bootstrap", "one"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{NAME}: {tmp_path}/none.yaml: No such file or directory",
        f"{NAME}: kafka.bootstrap.servers: 'one' is not host:port",
    ]


def lines_of(answer: ClusterMetadata, kind: str) -> list[str]:
    return [
        line.strip()
        for line in report(state(answer, pa.nulls(answer.topics.num_rows, pa.int32()), kind))
    ]


def test_a_cluster_of_kafka_has_nothing_that_means_nothing():
    lines = lines_of(BAD, "kafka")
    assert "kind kafka: Apache Kafka" in lines
    assert not [line for line in lines if "not meaningful" in line or "warning" in line]


def test_what_means_nothing_is_said_in_the_place_of_a_number():
    lines = lines_of(metadata(("t", [(0, 1, [1, 2], [1, 2])]), cluster_id="redpanda.1"), "redpanda")
    assert (
        "not meaningful here: isr: Redpanda answers every replica as in sync, whatever its state"
        in lines
    )
    troubles = [line for line in lines if line.endswith("not meaningful here")]
    assert [line.removesuffix("not meaningful here").strip() for line in troubles] == list(
        TROUBLES.values()
    )
    assert "broker  address   rack  leads  replicas" in lines


def test_of_leaders_that_mean_nothing_nothing_is_counted():
    lines = lines_of(metadata(("t", [(0, 1, [1], [1])])), "warpstream")
    assert "broker  address   rack" in lines
    assert len([line for line in lines if line.endswith("not meaningful here")]) == len(TROUBLES)


def test_the_kind_is_read_from_the_configuration(tmp_path):
    config = tmp_path / "client.yaml"
    config.write_text("kind: redpanda\n")
    assert read_options("one:9092", read_client_file(config)).clusters[0].kind == "redpanda"
    assert read_options("one:9092", None).clusters[0].kind == KAFKA


def test_observers_are_among_those_that_are_out_of_sync():
    (line,) = (each for each in lines_of(BAD, "confluent") if each.startswith("under-replicated"))
    assert line.endswith("1  observers, if there are any, make some of them")


def test_each_cluster_has_its_line_and_each_missing_permission_its_command(monkeypatch):
    acl = "--operation Read --topic __consumer_offsets"

    def fails(cluster, *_):
        if cluster.alias == "away":
            raise PollError("unreachable", "away:9092: connection refused")
        log = Permission("rebalance history", "READ", "missing: READ", acl)
        return state(BAD, MIN_ISR), [
            log,
            Permission("consumer groups", "DESCRIBE", "missing: DESCRIBE"),
        ]

    monkeypatch.setattr(check, "check", fails)
    clusters = {
        "orders": {"kafka.bootstrap.servers": "a:9092,b:9092", "enrich": "none"},
        "away": {"kafka.bootstrap.servers": "away:9092"},
    }
    options = parse({"clusters": json.dumps(clusters), "enrich": "groups"}, "stream")
    for read, missing in (((), []), (("groupLog",), ["rebalance history"])):
        orders, away = check.checked(options, read=read)
        assert [each.feature for each in orders.missing] == missing
        assert (orders.is_good, away.is_good) == (not read, False)
    assert list(check.lines(away, whole=False)) == [
        "away: failed: unreachable: away:9092: connection refused"
    ]
    assert list(check.lines(orders, whole=False)) == [
        "orders: polled in 1.5 ms, 3 topics; permissions are missing",
        "  rebalance history: missing: READ",
        (
            "    kafka-acls --bootstrap-server a:9092,b:9092 --add --allow-principal "
            f"User:PRINCIPAL {acl}"
        ),
    ]


@pytest.mark.parametrize(
    ("errors", "silent", "says"),
    [
        ({}, 0, "allowed"),
        ({3: 1}, 0, "allowed"),
        ({29: 1}, 0, "missing: DESCRIBE_CONFIGS on 1 of 3 topics"),
        ({29: 1, 41: 1}, 0, "missing: DESCRIBE_CONFIGS on 1 of 3 topics"),
        ({41: 3}, 0, "not known: topics answered with error 41 (NotControllerError): 3"),
        ({7: 1}, 0, "not known: topics answered with error 7 (RequestTimedOutError): 1"),
        ({-1: 2}, 0, "not known: topics answered with error -1 (UnknownError): 2"),
        ({}, 3, "not known: topics of which the answer has no min.insync.replicas: 3"),
    ],
)
def test_a_permission_is_missing_only_where_the_error_code_says_so(errors, silent, says):
    """A topic may be deleted between two requests, and a broker may answer without what it was
    asked for.
    """
    of = state(BAD, MIN_ISR, answered=MinIsr({"good": 2}, errors, silent))
    assert _describe_configs(of).answer == says
    text = "\n".join(report(of))
    assert ("needs DESCRIBE_CONFIGS" in text) == (29 in errors)
    assert ("the answer of min ISR says why" in text) == says.startswith("not known")


def test_one_thing_is_counted_as_one():
    lines = list(report(state(metadata(("t", [(5, -1, [], [])])), pa.nulls(1, pa.int32()))))
    assert "1 topic, 1 partition, of which" in lines
    assert any("unknown for 1 partition: their topics are gone" in line for line in lines)


def test_what_the_code_stumbles_over_costs_no_other_cluster(monkeypatch):
    def fails(cluster, *_):
        if cluster.alias == "odd":
            raise TypeError("cannot unpack\nnon-iterable NoneType object")
        return state(BAD, MIN_ISR), [
            Permission("consumer groups", "DESCRIBE", "not known: one:9092: null")
        ]

    monkeypatch.setattr(check, "check", fails)
    clusters = {alias: {"kafka.bootstrap.servers": f"{alias}:9092"} for alias in ("orders", "odd")}
    options = parse({"clusters": json.dumps(clusters), "enrich": "groups"}, "stream")
    orders, odd = check.checked(options, read=())
    assert list(check.lines(odd, whole=False)) == [
        (
            "odd: failed: protocol: "
            f"{stumbled(TypeError('cannot unpack non-iterable NoneType object'))}"
        )
    ]
    assert list(check.lines(orders, whole=False)) == [
        "orders: polled in 1.5 ms, 3 topics",
        "  consumer groups: not known: one:9092: null",
    ]
    assert (orders.is_good, odd.is_good) == (True, False)
