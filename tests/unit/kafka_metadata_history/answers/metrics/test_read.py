"""The state of clusters, read of the known incident."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from jobs.configuration.config import Config
from kafka_metadata_history.answers.metrics.exposition import exposition, metrics_of
from kafka_metadata_history.answers.metrics.read import AVAILABILITY_HOLDS, read_state
from kafka_metadata_history.answers.questions import Ask
from schemas import bronze, gold, groups, incidents, internal, silver, transactions
from schemas.consumption import GROUP_LAG
from schemas.storage import STORAGE
from schemas.table import Table
from tests.support.asof_lakes import KNOWN, OTHER, answered, asking, lasting, twice
from tests.support.exported_metrics import Labels, config, of, samples, time
from tests.support.incident import CLUSTER
from tests.support.incident_rows import bounds, finding, incident, incident_rows
from tests.support.transaction_questions import transaction_rows

Row = dict[str, Any]
Found = dict[str, dict[Labels, float]]
UNTIL = 120.1
"""Up to when the known incident is recorded, in seconds after noon."""
PROD = config({"prod": {}})


def read(ask: Ask, of_config: Config = PROD, *, after: float = 1, **options: bool) -> Found:
    return samples(metrics_of(ask, of_config, time(UNTIL + after), **options))


def noted(history: str, **columns: Any) -> Row:
    """A row of internal.states: how far a history of prod has come."""
    state = {"round": 9, "done_at": time(UNTIL), "last_seen_at": time(UNTIL), "memory": "{}"}
    return {**CLUSTER, **state, "history": history, **columns}


MADE: dict[Table, list[Row]] = {internal.STATE: [noted("incidents")]}


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking(MADE, incident_rows("prod")) as found:
        yield found


def test_partitions_by_level_at_least_and_at_most(ask: Ask) -> None:
    found = read(ask)
    assert of(found, "record_age_seconds", cluster="prod") == pytest.approx(1)
    assert of(found, "partitions", cluster="prod") == 5
    levels = {
        level: tuple(
            of(found, f"partitions_by_level_{bound}", cluster="prod", level=level)
            for bound in ("min", "max")
        )
        for level in ("offline", "under_min_isr", "at_min_isr", "one_in_sync", "under_replicated")
    }
    assert levels == {
        "offline": (0, 0),
        # The min ISR of __consumer_offsets is not known.
        "under_min_isr": (0, 1),
        "at_min_isr": (1, 2),
        "one_in_sync": (0, 0),
        "under_replicated": (0, 0),
    }
    assert of(found, "brokers", cluster="prod") == 3


def current(isr: list[int] | None, replicas: list[int] | None, leader: int | None = 1) -> Row:
    where = {"topic": "orders", "partition": 0, "leader": leader, "error_code": 0}
    return lasting(0, **where, isr=isr, replicas=replicas, leader_epoch=1, is_current=True)


@pytest.mark.parametrize(
    ("row", "bounds_of_one"),
    [
        (current([1], [1, 2]), (1, 1)),
        (current([1], [1]), (0, 0)),
        (current([1, 2], [1, 2, 3]), (0, 0)),
        (current([1], [1, 2], leader=-1), (0, 0)),
        (current(None, [1, 2]), (0, 1)),
        (current([1], [1, 2], leader=None), (0, 1)),
    ],
)
def test_one_failure_from_offline(row: Row, bounds_of_one: tuple[int, int]) -> None:
    with asking({}, {silver.PARTITION_SNAPSHOTS: [row]}) as ask:
        found = read(ask)
    labels = {"cluster": "prod", "level": "one_in_sync"}
    bounds_found = [of(found, f"partitions_by_level_{each}", **labels) for each in ("min", "max")]
    assert tuple(bounds_found) == bounds_of_one


@pytest.mark.parametrize(("leader", "count"), [(1, 1), (-1, 0)])
def test_an_offline_partition_is_not_at_min_isr(leader: int, count: int) -> None:
    row = current([1], [1, 2], leader=leader)
    setting = lasting(0, topic="orders", min_insync_replicas=1, is_current=True)
    rows = {silver.PARTITION_SNAPSHOTS: [row], silver.TOPIC_CONFIGS: [setting]}
    with asking({}, rows) as ask:
        found = read(ask)
    labels = {"cluster": "prod", "level": "at_min_isr"}
    assert of(found, "partitions_by_level_min", **labels) == count
    labels["level"] = "offline"
    assert of(found, "partitions_by_level_max", **labels) == 1 - count


def test_groups_of_which_nothing_tells_are_neither_stuck_nor_well(ask: Ask) -> None:
    found = read(ask)
    assert "open_incidents" in found
    assert not {"stuck_groups", "crash_loops"} & found.keys()


def test_what_no_source_tells_is_absent() -> None:
    with asking({}, {groups.GROUP_LIVES: [], **{each: [] for each in incidents.TABLES}}) as ask:
        found = read(ask)
    for name in ("fenced_brokers", "active_controllers", "quorum_voters", "quorum_voters_behind"):
        assert name not in found
    assert "active_controller_id" not in found
    assert "quorum_observers_behind" not in found
    for name in ("open_incidents", "recent_opened_incidents", "stuck_groups", "crash_loops"):
        assert name not in found
    assert not any(name.startswith("broker_") or "lag" in name for name in found)


def test_fenced_brokers_and_the_quorum_as_they_are_answered() -> None:
    quorum = lasting(
        0, controller_id=-1, quorum_epoch=4, voters=[3001, 3002], voters_behind=[3002],
        observers_behind=[1, 2, 3], is_current=True,
    )  # fmt: skip
    fenced = lasting(10, broker_id=4, rack="b", host="h", port=1, is_current=True)
    rows = {
        bronze.METADATA_POLLS: [answered("fenced", 100), answered("quorum", 100)],
        silver.QUORUM: [quorum],
        silver.FENCED_BROKERS: [fenced],
    }
    with asking(rows) as ask:
        found = read(ask)
    names = ("fenced_brokers", "active_controllers", "quorum_voters", "quorum_voters_behind")
    assert [of(found, name, cluster="prod") for name in names] == [1, 0, 2, 1]
    assert of(found, "quorum_observers_behind", cluster="prod") == 3
    assert of(found, "active_controller_id", cluster="prod") == -1


def test_log_directories_as_they_are_answered() -> None:
    dirs = [
        lasting(0, broker_id=broker_id, log_dir=log_dir, **volume, is_current=True)
        for broker_id, log_dir, volume in (
            (1, "/d1", {"is_online": True, "total_bytes": 100}),
            (1, "/d2", {"is_online": False}),
            (2, "/d1", {"is_online": True}),
        )
    ]
    sizes = [
        {name: dirs[0][name] for name in ("cluster_id", "cluster", "broker_id")}
        | {"log_dir": log_dir, "level": "log_dir", "usable_bytes": usable, "is_live": is_live}
        # Of a failed directory what was told before counts no more, nor that of a day before.
        for log_dir, usable, is_live in (("/d1", 7, True), ("/d1", 9, False), ("/d2", 5, True))
    ]
    rows = {silver.LOG_DIRS: dirs, STORAGE: sizes}
    with asking({bronze.METADATA_POLLS: [answered("log_dirs", 100)]}, rows) as ask:
        found, without = read(ask, brokers=True), read(ask)
    first = {"cluster": "prod", "broker": "1", "log_dir": "/d1"}
    assert found["broker_log_dir_usable_bytes"] == {frozenset(first.items()): 7}
    assert found["broker_log_dir_volume_bytes"] == {frozenset(first.items()): 100}
    failed = [
        of(found, "broker_failed_log_dirs", cluster="prod", broker=each) for each in ("1", "2")
    ]
    assert failed == [1, 0]
    assert of(without, "failed_log_dirs", cluster="prod") == 1
    assert not any(name.startswith("broker_") for name in without)
    with asking({}, rows) as ask:
        assert not any("log_dir" in name for name in read(ask, brokers=True)), (
            "nobody was asked within a day"
        )


def test_incidents_that_last_and_those_that_opened_lately(ask: Ask) -> None:
    found = read(ask)
    opened = {
        severity: of(found, "open_incidents", cluster="prod", severity=severity)
        for severity in ("info", "ticket", "page")
    }
    assert opened == {"info": 0, "ticket": 0, "page": 1}
    (series,) = found["open_incidents_by_cause"]
    assert dict(series) == {
        "cluster": "prod",
        "kind": "broker_missing",
        "cause": "broker_down",
        "severity": "page",
    }
    assert of(found, "recent_opened_incidents", cluster="prod", severity="page") == 1
    assert of(found, "recent_opened_incidents", cluster="prod", severity="info") == 0


def test_counters_begin_at_zero_and_are_absent_where_rows_are_dropped(ask: Ask) -> None:
    found = read(ask)
    for name in ("incidents_opened_total", "incidents_ended_total"):
        assert of(found, name, cluster="prod", kind="broker_missing") == 1
        assert of(found, name, cluster="prod", kind="quorum_lost") == 0
    kept = config({"prod": {}}, "retention: {gold: 90d}")
    found = read(ask, kept)
    assert "recent_opened_incidents" in found
    assert not any(name.endswith("_total") for name in found)


def test_groups_that_are_stuck_and_crash_loops() -> None:
    stuck = incident("d" * 12, "group_stuck", bounds((1, 2)))
    loop = incident("e" * 12, "crash_loop", bounds((1, 2)), **{"class": "finding"})
    over = incident("f" * 12, "group_stuck", bounds((1, 2), (3, 4)))
    findings = [
        finding("d" * 12, 1, "group_stuck", bounds((1, 2)), group_id="shop"),
        finding("d" * 12, 2, "group_stuck", bounds((5, 6)), group_id="shop"),
        finding("d" * 12, 3, "group_stuck", bounds((5, 6), (7, 8)), group_id="audit"),
        finding("f" * 12, 1, "group_stuck", bounds((1, 2), (3, 4)), group_id="billing"),
    ]
    rows = {incidents.INCIDENTS: [stuck, loop, over], incidents.INCIDENT_LINKS: findings}
    log = {internal.STATE: [noted("incidents"), noted("rebalance_history", positions=[("0", [0])])]}
    with asking(log, rows) as ask:
        found = read(ask)
    assert of(found, "stuck_groups", cluster="prod") == 1
    assert of(found, "crash_loops", cluster="prod") == 1
    assert of(found, "open_incidents", cluster="prod", severity="ticket") == 2


def test_transactions_that_are_stuck_and_the_oldest_of_them() -> None:
    rows = transaction_rows()[transactions.TRANSACTIONS]
    log = {internal.STATE: [noted("transaction_history")]}
    with asking(log, {transactions.TRANSACTIONS: [row | CLUSTER for row in rows]}) as ask:
        found = read(ask)
    assert of(found, "stuck_transactions", cluster="prod") == 1
    assert of(found, "oldest_stuck_transaction_seconds", cluster="prod") > 600
    with asking(log, {}) as ask:
        found = read(ask)
    assert of(found, "stuck_transactions", cluster="prod") == 0
    assert "oldest_stuck_transaction_seconds" not in found
    with asking({}, {}) as ask:
        assert "stuck_transactions" not in read(ask), "the log is not read"


def test_a_stale_broker_by_itself_and_among_brokers() -> None:
    lasts = {"began_before": time(10), "is_live": True, "broker_id": 2, "ended_before": None}
    stale = {**CLUSTER, "id": "s", "poll": "p", **lasts}
    ended = stale | {"id": "t", "broker_id": 3, "ended_before": time(20), "is_live": False}
    with asking({}, {gold.STALE_BROKERS: [stale, ended]}) as ask:
        found = read(ask, brokers=True)
    assert of(found, "stale_brokers", cluster="prod") == 1
    brokers = {dict(labels)["broker"]: value for labels, value in found["broker_stale"].items()}
    assert brokers == {"1": 0, "2": 1, "3": 0}


def test_brokers_by_option(ask: Ask) -> None:
    found = read(ask, brokers=True)
    values = {
        name: [of(found, f"broker_{name}", cluster="prod", broker=str(each)) for each in (1, 2, 3)]
        for name in ("listed", "leader_partitions", "replicas", "out_of_sync_replicas")
    }
    assert values == {
        "listed": [1, 1, 1],
        "leader_partitions": [1, 3, 1],
        "replicas": [3, 4, 4],
        "out_of_sync_replicas": [0, 0, 0],
    }
    assert "broker_coordinated_groups" not in found, "the coordinators' log is not read"


def test_a_broker_that_is_not_listed_has_its_replicas() -> None:
    with asking({}, {silver.PARTITION_SNAPSHOTS: [current([1], [1, 9])]}) as ask:
        found = read(ask, brokers=True)
    assert of(found, "broker_listed", cluster="prod", broker="9") == 0
    assert of(found, "broker_out_of_sync_replicas", cluster="prod", broker="9") == 1


def test_groups_of_a_coordinator_are_those_that_are_there() -> None:
    log = {internal.STATE: [noted("rebalance_history", positions=[("0", [0])])]}
    over = [row | {"valid_to": time(60), "is_live": False} for row in KNOWN[groups.GROUP_LIVES][:2]]
    lives = [*over, *KNOWN[groups.GROUP_LIVES][2:]]
    with asking(log, {groups.GROUP_LIVES: lives}) as ask:
        found = read(ask, brokers=True)
    coordinated = [
        of(found, "broker_coordinated_groups", cluster="prod", broker=str(each))
        for each in (1, 2, 3)
    ]
    assert coordinated == [0, 4, 0]


LAG_OF = config({"prod": {"enrich": "offsets"}, "test": {}})


@pytest.mark.parametrize("until", [UNTIL, UNTIL - 179, UNTIL - 200])
def test_lag_counts_for_three_beats_of_its_question(until: float) -> None:
    log = {internal.STATE: [noted("group_lag", done_at=time(until))]}
    with asking(log) as ask:
        found = read(ask, LAG_OF, group_lag=True)
        assert "group_lag_records" not in read(ask, LAG_OF)
        assert "group_lag_records" not in read(ask, PROD, group_lag=True), "nobody asks"
    if until < UNTIL - 180:
        assert "group_lag_records" not in found
        return
    expected = {
        row["group_id"]: row["lag_max"]
        for row in KNOWN[GROUP_LAG]
        if row["valid_to"] is None and row["lag_max"] is not None
    }
    assert {dict(each)["group"]: value for each, value in found["group_lag_records"].items()} == (
        expected
    )
    assert {dict(each)["cluster"] for each in found["group_lag_records"]} == {"prod"}
    assert len(expected) >= 3


def test_availability_of_a_week_at_least_and_at_most(ask: Ask) -> None:
    found = read(ask)
    ratios = {
        kind: tuple(
            of(found, f"metadata_availability_ratio_{bound}", cluster="prod", kind=kind)
            for bound in ("min", "max")
        )
        for kind in ("reads", "writes")
    }
    for least, most in ratios.values():
        assert least is not None
        assert most is not None
        assert 0 < least < most < 1
    assert ratios["writes"] < ratios["reads"]


def test_availability_is_kept_for_a_while() -> None:
    asked: list[str] = []

    def counting(ask: Ask) -> Ask:
        def of_lake(sql: str) -> Any:
            asked.append(sql)
            return ask(sql)

        return of_lake

    def asks(ask: Ask, before: Any) -> Any:
        asked.clear()
        found = read_state(counting(ask), PROD, before=before)
        return found, sum("gold.availability" in sql for sql in asked)

    with asking({}) as ask:
        first, times = asks(ask, None)
        assert times == 1
        second, times = asks(ask, first)
        assert times == 0
        assert second == first
    later = UNTIL + AVAILABILITY_HOLDS.total_seconds() + 1
    with asking({internal.STATE: [noted("silver", done_at=time(later), changed_poll="x")]}) as ask:
        assert asks(ask, first)[1] == 1


@pytest.mark.parametrize(
    ("interval", "limit"),
    # Polls without news wait a minute for their commit: a younger one is not in the lake.
    [("5m", 900), ("1m", 180), ("30s", 105), ("1s", 76)],
)
def test_a_state_counts_for_three_beats(ask: Ask, interval: str, limit: float) -> None:
    beats = config({"prod": {"pollInterval": interval}})
    assert "brokers" in read(ask, beats, after=limit - 0.2)
    found = read(ask, beats, after=limit + 0.2)
    assert set(found) == {"record_age_seconds"}


def test_a_shorter_wait_for_commits_lets_three_beats_decide(ask: Ask) -> None:
    waits = config({"prod": {}}, "poll: {commitInterval: 30s}")
    assert "brokers" in read(ask, waits, after=89)
    assert set(read(ask, waits, after=91)) == {"record_age_seconds"}


def test_clusters_are_those_of_the_configuration() -> None:
    of_two = config({"test": {}, "absent": {}})
    with asking(twice()) as ask:
        found = read(ask, of_two)
    assert {dict(labels)["cluster"] for name in found for labels in found[name]} == {
        "test",
        "absent",
    }
    assert of(found, "record_age_seconds", cluster="absent") == float("inf")
    assert OTHER["cluster"] == "test"


def test_a_lake_without_history_has_ages_alone() -> None:
    with asking({}, {silver.CLUSTER_SNAPSHOTS: [], internal.STATE: []}) as ask:
        assert set(read(ask)) == {"record_age_seconds"}


def test_the_state_is_read_once_and_shown_at_any_time(ask: Ask) -> None:
    state = read_state(ask, PROD)
    shown: Callable[[float], Found] = lambda after: samples(  # noqa: E731
        exposition(state, time(UNTIL) + timedelta(seconds=after))
    )
    for after in (0, 50, 104):
        assert of(shown(after), "record_age_seconds", cluster="prod") == pytest.approx(after)
        assert of(shown(after), "brokers", cluster="prod") == 3
    assert "brokers" not in shown(106)
