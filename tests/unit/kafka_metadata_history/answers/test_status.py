"""The status of a lake: facts out of rows, the thresholds that they cross, and the three
renderings. No Spark.
"""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from jobs.configuration.keys import FILE
from jobs.configuration.limits import Limits
from jobs.run.unanswered import Asked
from kafka_metadata_history.answers.status import (
    Cluster,
    ClusterLog,
    LakeStatus,
    LeftOutOf,
    Log,
    PollCounts,
    Size,
    Waiting,
    clusters_of,
)
from kafka_metadata_history.answers.status_text import as_json, as_prometheus, as_table
from kafka_metadata_history.answers.thresholds import OF_CLUSTER, OF_LAKE, Crossed, judge, span
from metadata_source.outcomes import TO_DO
from tests.support.examples import examples

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
S = timedelta(seconds=1)
STREAM = "20261101T110000Z-00000000"
OLDER = "20261101T100000Z-00000000"
HOSTILE = 'pay\\ments "1"\n\x1b[31m\u202e'


def header(
    n: int, kind: str | None = None, *, stream: str = STREAM, late: float = 0, **more: Any
) -> dict[str, Any]:
    """Of a poll that was due ten seconds after the one before, the last one of ten just now."""
    due = NOW - (9 - n) * 10 * S
    times = {
        "scheduled_at": due,
        "sent_at": due + late * S,
        "received_at": None if kind else due + (late + 1) * S,
    }
    outcome = {
        "outcome": "failed" if kind else "ok",
        "error_kind": kind,
        "error": kind and f"{kind} it is",
    }
    outcome |= {"is_visit": False}
    place = {"cluster": "prod", "poll_id": f"{stream}/{n:012d}", "stream": stream, "n": n}
    return place | times | outcome | more


def silver(done: int, **more: Any) -> dict[str, Any]:
    """Its row of internal.clusters, after a poll."""
    at = NOW - (9 - done) * 10 * S + S
    row = {
        "history": "silver",
        "cluster": "prod",
        "taken": {STREAM: done},
        "waiting": None,
        "last_seen_at": at,
    }
    counts = {"refused_polls": 0, "stale_polls": 0}
    return (
        row
        | counts
        | {"done_poll": f"{STREAM}/{done:012d}", "done_at": at, "changed_poll": None}
        | more
    )


HISTORIES = ("silver", "gold", "group log", "rebalance cost", "lag")


def waiting(*histories: str, **since: datetime) -> tuple[Waiting, ...]:
    """Of these histories, those up to which something waits `since` a time."""
    return tuple(
        Waiting(each, since.get(each.replace(" ", "_")), f"{each} waits.", each == "silver")
        for each in histories
    )


UP_TO_DATE = waiting(*HISTORIES[:4])


def cluster(
    *headers: dict[str, Any],
    known: tuple[dict[str, Any], ...] = (),
    states: tuple[dict[str, Any], ...] = (),
    gaps: tuple[dict[str, Any], ...] = (),
    logs: list[dict[str, Any]] | None = None,
    followed: tuple[str, ...] = (),
    asked: tuple[str, ...] = (),
) -> Cluster:
    """LakeStatus of the cluster `prod`; another one has rows of all kinds, and is not asked for."""
    others = (
        [header(n, "timeout") | {"cluster": "other"} for n in range(3)],
        [silver(3) | {"cluster": "other"}],
    )
    (found,) = clusters_of(
        {"prod": 10 * S}, headers=[*headers[::-1], *others[0]], clusters=[*known, *others[1]],
        states=states, gaps=gaps, logs=logs, waiting={"prod": UP_TO_DATE}, followed=followed,
        asked=asked,
    )  # fmt: skip
    return found


NOT_HISTORY = "; polls tell topics and partitions, and no round of history has had it yet"
NO_GROUPS = Asked("groups", 3, NOW - 60 * S, "failed: \x1b[31m")
REFUSED_CONFIGS = Asked("configs", 2, NOW - 60 * S, "not_allowed")
READ = {"cluster": "prod", "read_at": NOW, "lost": 0}
WELL = cluster(*map(header, range(10)), known=(silver(9),), logs=[READ])


def facts(*clusters: Cluster, **more: Any) -> LakeStatus:
    return LakeStatus(
        NOW, "/data/lake", timedelta(hours=1), clusters, **{"upkeep_at": NOW, "rounds": 7} | more
    )


def crossed(each: Cluster, **limits: Any) -> list[tuple[str, str]]:
    found = judge(facts(each), Limits(**limits))
    assert all(one.cluster == "prod" for one in found)
    return [(one.threshold, one.says) for one in found]


# --- facts ---


def test_a_history_that_leaves_a_cluster_out_says_so() -> None:
    since, says = NOW - timedelta(minutes=3), "KeyError: 'leader_epoch' (_fold, line 7)"
    row = {
        "history": "left out of silver",
        "cluster": "prod",
        "round": 0,
        "done_at": since,
        "why": says,
    }
    found = cluster(*map(header, range(10)), known=(silver(9),), states=(row,), logs=[READ])
    assert found.left_out == (LeftOutOf("silver", since, says),)
    todo = ": upgrade the program, or report it"
    assert crossed(found) == [
        (
            "behind",
            (
                f"silver leaves the cluster out for 3 min, since its fold failed: {says}; it is "
                f"tried again{todo}"
            ),
        )
    ]


def test_a_cluster_that_fares_well() -> None:
    assert replace(WELL.polls, good_at=None) == PollCounts(polls=10)
    assert WELL.good_at == WELL.polls.good_at == NOW + S
    assert WELL.log == Log(read_at=NOW)
    assert judge(facts(WELL), Limits()) == []


def test_polls_that_fail_since_the_last_good_one() -> None:
    failing = ["timeout", "unreachable", "timeout"]
    polls = cluster(
        *map(header, range(5)),
        header(5, "tls"),
        header(6),
        *(header(7 + i, k) for i, k in enumerate(failing)),
    ).polls
    assert (polls.polls, polls.failed) == (10, {"tls": 1, "timeout": 2, "unreachable": 1})
    assert (polls.failing, polls.failing_since) == (3, NOW - 20 * S)
    assert (polls.error_kind, polls.error) == ("timeout", "timeout it is")
    assert polls.good_at == NOW - 29 * S


@pytest.mark.parametrize(("late", "count"), [(5, 0), (5.001, 1)])
def test_a_poll_is_late_from_half_an_interval_on(late: float, count: int) -> None:
    assert cluster(header(8, late=late), header(9, "timeout", late=9)).polls.late == count


def test_polls_of_an_older_stream_are_ignored_and_are_no_good_ones() -> None:
    found = cluster(header(2), *(header(n, stream=OLDER) for n in (8, 9)), known=(silver(2),))
    assert found.polls.ignored == 2
    assert found.good_at == NOW - 69 * S


def test_answers_of_another_cluster_are_no_good_polls() -> None:
    found = cluster(
        *map(header, range(10)), known=(silver(9, last_seen_at=NOW - 500 * S, refused_polls=10),)
    )
    assert found.good_at == NOW - 500 * S
    ((threshold, says),) = crossed(found)
    assert (threshold, says) == (
        "lastGoodPoll",
        "the last good poll was answered 8 min ago; 10 answers since were another cluster's",
    )


def test_a_cluster_that_has_its_history_under_another_alias_is_named_with_it() -> None:
    headers = [header(n, cluster_id="id-prod") for n in range(10)]
    renamed = silver(-1, last_seen_at=None, refused_polls=10, taken={STREAM: 9}, cluster_id=None)
    known = silver(3, cluster_id="id-prod") | {"cluster": "old"}
    found = [cluster(*headers, known=each) for each in ((renamed, known), (renamed,))]
    refused = "there was no good poll yet; 10 answers since were another cluster's"
    name_it = ": of id-prod, which has its history as old: name it so again, an alias is for good"
    assert [dict(crossed(each))["lastGoodPoll"] for each in found] == [refused + name_it, refused]


def test_what_silver_knows_of_before_the_window() -> None:
    assert cluster(known=(silver(-90),)).good_at == NOW - 989 * S


def test_who_tells_and_up_to_when_the_controllers_log_is_known() -> None:
    read = {"log_read_at": NOW - 3 * S, "log_known_until": NOW - 5 * S}
    found = cluster(known=(silver(9, told_by="log", **read),), followed=("prod",))
    assert (found.told_by, found.cluster_log) == ("log", ClusterLog(NOW - 3 * S, NOW - 5 * S))
    assert (
        cluster(known=(silver(9, told_by="polls"),), followed=("prod",)).cluster_log == ClusterLog()
    )
    # Nobody is to read it any more.
    assert cluster(known=(silver(9, told_by="polls", **read),)).cluster_log is None


def test_when_all_groups_last_told_their_offsets() -> None:
    told = [
        header(n, is_visit=True, answered_at=NOW - (9 - n) * 10 * S + S) for n in range(0, 10, 3)
    ]
    others = [header(4, "timeout"), header(7), header(8)]
    assert cluster(*told, *others, asked=("prod",)).offsets_at == NOW + S
    assert cluster(*others, asked=("prod",)).offsets_at is None
    assert cluster(*told).offsets_at is None, "nobody is to ask any more"


# --- judging ---


SILVER_WAITS = replace(WELL, waiting=waiting("silver", silver=NOW - 301 * S))
BY_LOG = replace(WELL, told_by="log", cluster_log=ClusterLog(NOW - 60 * S, NOW - 300 * S))
NOT_WHOLE = replace(WELL, told_by="polls", cluster_log=ClusterLog(NOW - 60 * S, NOW - 301 * S))
POLLS_TELL = "polls tell topics and partitions: the pipeline's log says why"
IGNORED = "4 polls are of an older checkpoint, let one job alone poll"
STALE = (
    "5 polls wait, since an answer is older than what was accepted; if they are right, "
    "`kafka-metadata-history run --believe prod` accepts them"
)
TWO_FAIL, THREE_FAIL = (
    PollCounts(100, {"timeout": n}, failing=n, error_kind="timeout", error="x") for n in (2, 3)
)


@pytest.mark.parametrize(
    ("each", "limits", "found"),
    [
        (replace(WELL, good_at=None), {}, "lastGoodPoll: there was no good poll yet"),
        (replace(WELL, good_at=NOW - 140 * S), {}, None),
        (
            replace(WELL, good_at=NOW - 141 * S),
            {},
            "lastGoodPoll: the last good poll was answered 2 min ago",
        ),
        (replace(WELL, good_at=NOW - 141 * S), {"last_good_poll": 141 * S}, None),
        (
            replace(WELL, good_at=NOW + 141 * S),
            {},
            "lastGoodPoll: the last good poll is 2 min ahead: a clock is wrong",
        ),
        (replace(WELL, interval=600 * S, good_at=NOW - 1320 * S), {}, None),
        (replace(WELL, polls=TWO_FAIL), {}, None),
        (replace(WELL, polls=THREE_FAIL), {}, "failures: the last 3 poll(s) failed: timeout: x"),
        (replace(WELL, polls=PollCounts(10, {"timeout": 2})), {}, None),
        (
            replace(WELL, polls=PollCounts(10, {"timeout": 2, "tls": 1})),
            {},
            "failedPercent: 3 of 10 polls within 60 min failed: timeout 2, tls 1",
        ),
        (replace(WELL, polls=PollCounts(10, late=1)), {}, None),
        (
            replace(WELL, polls=PollCounts(10, late=2)),
            {},
            "latePercent: 2 of 10 polls within 60 min were sent more than half an interval late",
        ),
        (
            replace(WELL, gaps=1, gap_time=90 * S),
            {},
            "gaps: 1 gap(s) within 60 min, 90 s together: silver.poll_gaps says why",
        ),
        (replace(WELL, gaps=1), {"gaps": 1}, None),
        (SILVER_WAITS, {}, "behind: silver is 5 min behind: the pipeline's log says why"),
        (
            replace(SILVER_WAITS, polls=replace(SILVER_WAITS.polls, ignored=4), stale_polls=5),
            {},
            f"behind: silver is 5 min behind: {IGNORED}; {STALE}",
        ),
        (
            replace(WELL, waiting=waiting("gold", gold=NOW - 301 * S)),
            {},
            "behind: gold is 5 min behind: the pipeline's log says why",
        ),
        (replace(WELL, waiting=waiting("gold", gold=NOW - 300 * S)), {}, None),
        (
            replace(WELL, waiting=waiting("gold", gold=NOW - 301 * S), stale_polls=5),
            {},
            "behind: gold is 5 min behind: the pipeline's log says why",
        ),
        (
            replace(WELL, waiting=waiting("group log", group_log=NOW - 301 * S)),
            {},
            "behind: group log is 5 min behind: the pipeline's log says why",
        ),
        (
            replace(WELL, waiting=waiting("rebalance cost", rebalance_cost=NOW - 301 * S)),
            {},
            "behind: rebalance cost is 5 min behind: the pipeline's log says why",
        ),
        (replace(WELL, waiting=waiting("lag", lag=NOW - 300 * S)), {}, None),
        (
            replace(WELL, waiting=waiting("lag", lag=NOW - 301 * S)),
            {},
            "behind: lag is 5 min behind: the pipeline's log says why",
        ),
        (
            replace(WELL, log=Log(NOW, 3)),
            {},
            (
                "lostOffsets: 3 offset(s) of __consumer_offsets were gone before they could be "
                "read, or cannot be read"
            ),
        ),
        (replace(WELL, log=Log(NOW, 3)), {"lost_offsets": 3}, None),
        (BY_LOG, {}, None),
        (
            replace(BY_LOG, cluster_log=ClusterLog(NOW - 301 * S, NOW - 301 * S)),
            {},
            "behind: the controllers' log was last read 5 min ago: the pipeline's log says why",
        ),
        (
            NOT_WHOLE,
            {},
            f"behind: the controllers' log was last read 60 s ago; {POLLS_TELL}",
        ),
        (NOT_WHOLE, {"behind": 301 * S}, None),
        (
            replace(BY_LOG, told_by="polls", cluster_log=ClusterLog()),
            {},
            f"behind: the controllers' log was not read yet; {POLLS_TELL}",
        ),
        (
            replace(BY_LOG, told_by="polls", cluster_log=ClusterLog(recorded_at=NOW - 9 * S)),
            {},
            f"behind: the controllers' log was last read 9 s ago{NOT_HISTORY}",
        ),
        (replace(WELL, asked=(NO_GROUPS, REFUSED_CONFIGS)), {}, f"unanswered: {NO_GROUPS.says}"),
        (replace(WELL, asked=(NO_GROUPS, REFUSED_CONFIGS)), {"unanswered": 4}, None),
        (
            replace(WELL, asked=(REFUSED_CONFIGS,)),
            {"unanswered": 2},
            f"unanswered: {REFUSED_CONFIGS.says}",
        ),
    ],
)
def test_thresholds(each: Cluster, limits: dict[str, Any], found: str | None) -> None:
    assert [": ".join(one) for one in crossed(each, **limits)] == ([] if found is None else [found])


@pytest.mark.parametrize("kind", TO_DO)
def test_one_failed_poll_is_enough_where_a_person_has_to_act(kind: str) -> None:
    polls = PollCounts(100, {kind: 1}, failing=1, error_kind=kind, error="b:9092: no \x1b[31m")
    said = f"the last 1 poll(s) failed: {kind}: b:9092: no \\x1b[31m; {TO_DO[kind]}"
    assert crossed(replace(WELL, polls=polls)) == [("failures", said)]


@pytest.mark.parametrize(
    ("more", "limits", "found"),
    [
        ({"upkeep_at": None}, {}, ["upkeep"]),
        ({"upkeep_at": NOW - timedelta(hours=13)}, {}, []),
        ({"upkeep_at": NOW - timedelta(hours=13, seconds=1)}, {}, ["upkeep"]),
        ({"upkeep_at": NOW + timedelta(minutes=2)}, {}, []),
        ({"upkeep_at": NOW + timedelta(days=400)}, {}, ["upkeep"]),
        ({"kept_since": {"silver": NOW, "gold": NOW + timedelta(hours=3)}}, {}, ["upkeep"]),
        ({"sizes": [Size("a", 5, 1), Size("b", 6, 1)]}, {}, []),
        ({"sizes": [Size("a", 5, 1), Size("b", 6, 1)]}, {"lake_bytes": 11}, []),
        ({"sizes": [Size("a", 5, 1), Size("b", 6, 1)]}, {"lake_bytes": 10}, ["lakeBytes"]),
        ({"sizes": [Size("a", 5, 1, 2), Size("b", 0, 0, 4)]}, {"lake_bytes": 11}, []),
        ({"sizes": [Size("a", 5, 1, 2), Size("b", 0, 0, 4)]}, {"lake_bytes": 10}, ["lakeBytes"]),
    ],
)
def test_thresholds_of_the_lake(
    more: dict[str, Any], limits: dict[str, Any], found: list[str]
) -> None:
    judged = judge(facts(WELL, **more), Limits(**limits))
    assert [(each.threshold, each.cluster) for each in judged] == [(name, None) for name in found]


def test_what_is_noted_for_a_time_to_come_is_said() -> None:
    """Of an upkeep under a clock that was ahead: it was told of before only as so many seconds
    below zero ago.
    """
    ahead = facts(
        WELL, upkeep_at=NOW + timedelta(days=400), kept_since={"gold": NOW + timedelta(days=35)}
    )
    (found,) = judge(ahead, Limits())
    assert found.says.startswith(
        "the last upkeep is noted 400 d ahead of now, retention of gold is noted 35 d ahead of "
        "now: a clock is wrong"
    )
    assert "last upkeep: 2027-12-06T12:00:00Z, 400 d ahead; rounds" in as_table(ahead, [found])
    assert json.loads(as_json(ahead, [found]))["kept_since"] == {"gold": "2026-12-06T12:00:00Z"}


def test_logs_of_tables_are_told_beside_their_files() -> None:
    """Of tables without a file, too: each has a log."""
    sizes = facts(WELL, sizes=[Size("a", 5, 1, 200), Size("b", 0, 0, 40), Size("c", 1, 1)])
    lines = [line.split() for line in as_table(sizes, []).splitlines()]
    assert [line for line in lines if line and line[0] in {"a", "b", "c", "all"}] == [
        ["a", "5", "1", "200"],
        ["c", "1", "1"],
        ["all", "6", "2", "240"],
    ]
    assert json.loads(as_json(sizes, []))["bytes"] == 246
    assert '_table_log_bytes{table="b"} 40\n' in as_prometheus(sizes, [])
    assert 'table_log_bytes{table="c"}' not in as_prometheus(sizes, [])


def test_answers_that_wait_are_said_of_a_cluster_that_the_configuration_lacks() -> None:
    """Nothing else shows them, and no poll of it comes that could decide."""
    left = facts(WELL, waiting={"gone": 5})
    says = (
        "of gone, which the configuration lacks, 5 poll(s) wait; if they are right, "
        "`kafka-metadata-history run "
    )
    assert f"{says}--believe gone` accepts them\n" in as_table(left, [])
    assert json.loads(as_json(left, []))["waiting"] == {"gone": 5}
    assert " wait; " not in as_table(facts(WELL), [])


def test_every_threshold_is_a_key_of_the_configuration() -> None:
    assert {*OF_CLUSTER, *OF_LAKE} == FILE["status"].keys() - {"window"}


@pytest.mark.parametrize(
    ("interval", "window"), [(30 * S, 3600 * S), (360 * S, 3600 * S), (600 * S, 6000 * S)]
)
def test_the_window_has_room_for_ten_polls(interval: timedelta, window: timedelta) -> None:
    assert Limits().window_of(interval) == window


@pytest.mark.parametrize(
    ("time", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_a_time_for_people(time: float, text: str) -> None:
    assert span(time * S) == text


# --- renderings ---

FAILING = PollCounts(
    9,
    {"authentication": 1, "timeout": 2},
    1,
    None,
    1,
    NOW,
    "authentication",
    "no\nsuch \x1b[31muser",
)
HURT = facts(
    WELL,
    replace(
        WELL,
        cluster=HOSTILE,
        polls=FAILING,
        good_at=None,
        waiting=waiting("silver", "gold", silver=NOW - 9 * S),
        gaps=2,
        gap_time=90 * S,
        log=None,
    ),
    sizes=[Size("bronze.metadata_polls", 1234, 5)],
    upkeep_at=None,
)
CROSSED = judge(HURT, Limits())


def test_the_table_is_for_people() -> None:
    table = as_table(HURT, CROSSED)
    assert all(line.isprintable() for line in table.splitlines())
    lines = [line.split() for line in table.splitlines()]
    assert lines[0][:3] == ["/data/lake", "at", "2026-11-01T12:00:00Z;"]
    assert ["prod", "ok", "2026-11-01T12:00:01Z", "-1", "s", "10", *"000", *["0", "s"] * 4] in lines
    told = [
        " ".join(as_table(facts(each), []).splitlines()[4].split()) for each in (BY_LOG, NOT_WHOLE)
    ]
    assert [line.partition(" 0 s 0 s 0 s 0 s ")[2] for line in told] == [
        "log read 60 s ago",
        "polls, not log read 60 s ago",
    ]
    (hurt,) = (line for line in table.splitlines() if " unhealthy " in line)
    assert hurt.startswith('pay\\ments "1"\\n\\x1b[31m\\u202e ')
    assert hurt.endswith(f"authentication: no\\nsuch \\x1b[31muser; {TO_DO['authentication']}")
    assert "last upkeep: never; rounds of history: 7" in table
    assert [line for line in table.splitlines() if ": failures: " in line]
    assert table.splitlines()[-1].startswith("  lake: upkeep: the tables were never kept up")


def test_the_table_says_which_questions_get_no_answer() -> None:
    of = facts(
        replace(WELL, asked=(NO_GROUPS, REFUSED_CONFIGS, Asked("quorum"))),
        replace(WELL, cluster="other"),
    )
    *_, heading, _, prod, other = as_table(of, []).splitlines()[:6]
    at = heading.index("no answer to")
    assert (prod[at:].strip(), other[at:].strip()) == ("groups 3, configs 2", "")
    assert "no answer to" not in as_table(facts(WELL), [])
    (told,) = json.loads(as_json(facts(replace(WELL, asked=(NO_GROUPS,))), []))["clusters"]
    since = "2026-11-01T11:59:00Z"
    assert told["asked"] == [
        {"kind": "groups", "failing": 3, "failing_since": since, "outcome": "failed: \x1b[31m"}
    ]
    found = samples(as_prometheus(of, []))
    failing = {kind: found["failing_answers", of_kind] for kind in ("groups", "configs", "quorum")
               for of_kind in [frozenset({"cluster": "prod", "kind": kind}.items())]}  # fmt: skip
    assert failing == {"groups": 3, "configs": 2, "quorum": 0}


def test_a_log_of_which_nothing_was_ever_read_is_not_called_up_to_date() -> None:
    read = {"history": "rebalance_history", "cluster": "prod", "was_read": True}
    quiet, never = (
        cluster(header(9), known=(silver(9),), states=more, logs=[]) for more in ((read,), ())
    )
    assert (quiet.log, never.log) == (Log(), Log(never_read=True))
    tables = [as_table(facts(each), []).splitlines()[4] for each in (quiet, never)]
    assert ["nothing read" in line for line in tables] == [False, True]


def test_the_table_says_why_polls_failed_that_are_good_again() -> None:
    table = as_table(facts(replace(WELL, polls=PollCounts(10, {"tls": 1, "timeout": 2}))), [])
    assert [
        line
        for line in table.splitlines()
        if line.startswith("prod ") and line.endswith(" timeout 2, tls 1")
    ]


def test_the_table_has_a_column_of_each_history_that_is_made() -> None:
    lagging = replace(
        WELL, cluster="other", log=None, waiting=waiting("silver", "gold", "lag", lag=NOW - 40 * S)
    )
    *_, heading, _, well, other = as_table(facts(WELL, lagging), []).splitlines()[:6]
    behind = ["silver behind", "gold behind", "log behind", "cost behind", "lag behind"]
    assert [name for name in re.split("  +", heading.strip()) if name.endswith("behind")] == behind
    assert well.count(" 0 s") == 4
    assert " 40 s" in other
    assert " behind" not in as_table(facts(), [])
    assert "lag behind" not in as_table(facts(WELL), [])


def test_nothing_is_said_to_be_crossed_where_nothing_is() -> None:
    assert "crossed" not in as_table(facts(WELL), [])


def test_json_is_the_facts() -> None:
    told = json.loads(as_json(HURT, CROSSED))
    assert (told["at"], told["window_s"], told["bytes"], told["upkeep_at"]) == (
        "2026-11-01T12:00:00Z",
        3600,
        1234,
        None,
    )
    well, hurt = told["clusters"]
    assert (well["age_s"], well["gold_behind_s"], well["group_log_behind_s"]) == (-1, 0, 0)
    assert (hurt["cluster"], hurt["age"], hurt["silver_behind_s"], hurt["gap_time_s"]) == (
        HOSTILE,
        None,
        9,
        90,
    )
    assert hurt["polls"]["failed"] == {"authentication": 1, "timeout": 2}
    assert "group_log_behind_s" not in hurt
    (by_log,) = json.loads(as_json(facts(BY_LOG), []))["clusters"]
    assert (by_log["told_by"], by_log["cluster_log"]["read_at"]) == ("log", "2026-11-01T11:59:00Z")
    assert [each["threshold"] for each in told["crossed"]] == [each.threshold for each in CROSSED]


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """By the client library of Prometheus, which reads names, types, labels and values."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.name.startswith("kafka_metadata_history_")
        assert family.documentation
        assert family.type == ("counter" if "rounds" in family.name else "gauge")
        for sample in family.samples:
            key = (
                sample.name.removeprefix("kafka_metadata_history_"),
                frozenset(sample.labels.items()),
            )
            assert key not in found, "each sample is there once"
            found[key] = sample.value
    return found


def of(cluster_: str, **more: str) -> frozenset[tuple[str, str]]:
    return frozenset({"cluster": cluster_, **more}.items())


def test_prometheus_reads_what_was_meant() -> None:
    found = samples(as_prometheus(HURT, CROSSED))
    assert found["last_good_poll_timestamp_seconds", of("prod")] == NOW.timestamp() + 1
    assert ("last_good_poll_timestamp_seconds", of(HOSTILE)) not in found, "there was none"
    assert found["recent_failed_polls", of(HOSTILE, kind="timeout")] == 2
    assert found["failing_polls", of(HOSTILE)] == 1
    assert found["silver_behind_seconds", of(HOSTILE)] == 9
    assert found["group_log_behind_seconds", of("prod")] == 0
    assert ("group_log_behind_seconds", of(HOSTILE)) not in found
    assert found["table_bytes", frozenset({("table", "bronze.metadata_polls")})] == 1234
    assert found["rounds_total", frozenset()] == 7
    assert ("last_upkeep_timestamp_seconds", frozenset()) not in found
    thresholds = {
        labels: value for (name, labels), value in found.items() if name == "threshold_crossed"
    }
    assert len(thresholds) == 2 * len(OF_CLUSTER) + len(OF_LAKE)
    hurt = {
        frozenset(
            {
                k: v for k, v in (("cluster", each.cluster), ("threshold", each.threshold)) if v
            }.items()
        )
        for each in CROSSED
    }
    assert {labels for labels, value in thresholds.items() if value == 1} == hurt
    assert set(thresholds.values()) == {0, 1}


def test_prometheus_reads_how_far_lag_and_cost_are_behind() -> None:
    made = waiting("rebalance cost", "lag", rebalance_cost=NOW - 7 * S, lag=NOW - 5 * S)
    found = samples(
        as_prometheus(
            facts(
                replace(WELL, waiting=made, offsets_at=NOW - 3 * S),
                replace(WELL, cluster="other", waiting=waiting("silver")),
            ),
            [],
        )
    )
    assert (
        found["rebalance_cost_behind_seconds", of("prod")],
        found["lag_behind_seconds", of("prod")],
    ) == (7, 5)
    assert found["offsets_last_told_timestamp_seconds", of("prod")] == NOW.timestamp() - 3
    assert not {name for name, labels in found if labels == of("other")} & {
        "rebalance_cost_behind_seconds",
        "lag_behind_seconds",
        "offsets_last_told_timestamp_seconds",
    }


def test_prometheus_reads_who_tells_and_when_the_controllers_log_was_read() -> None:
    found = samples(
        as_prometheus(
            facts(BY_LOG, replace(NOT_WHOLE, cluster="other"), replace(WELL, cluster="no")), []
        )
    )
    of_log = {
        labels: value for (name, labels), value in found.items() if name == "cluster_log_tells"
    }
    assert of_log == {of("prod"): 1, of("other"): 0}
    read = {
        labels: value
        for (name, labels), value in found.items()
        if name.startswith("cluster_log_last_read")
    }
    assert read == dict.fromkeys(of_log, (NOW - 60 * S).timestamp())


@settings(max_examples=examples(30))
@given(
    aliases=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, max_size=4),
    late=st.integers(0, 9),
)
def test_prometheus_reads_any_alias(aliases: list[str], late: int) -> None:
    polls = PollCounts(9, {"timeout": 1}, late)
    text = as_prometheus(
        facts(*(replace(WELL, cluster=alias, polls=polls) for alias in aliases)), []
    )
    found = samples(text)
    assert {key: value for key, value in found.items() if key[0] == "recent_late_polls"} == {
        ("recent_late_polls", of(alias)): late for alias in aliases
    }


def test_who_asks_without_spark_needs_none() -> None:
    found = "print(*(m for m in ('pyspark', 'pyarrow', 'kafka') if m in sys.modules))"
    script = f"import sys, kafka_metadata_history.answers.status_text\n{found}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"


def test_a_threshold_that_is_crossed_twice_is_one_sample() -> None:
    twice = [Crossed("behind", "prod", "silver"), Crossed("behind", "prod", "gold")]
    assert (
        samples(as_prometheus(facts(WELL), twice))[
            "threshold_crossed", of("prod", threshold="behind")
        ]
        == 1
    )
