"""The thresholds that a status crosses, each at its bound."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs.configuration.keys import FILE
from jobs.configuration.limits import Limits
from kafka_metadata_history.answers.status import (
    Cluster,
    ClusterLog,
    Log,
    PollCounts,
    Size,
)
from kafka_metadata_history.answers.thresholds import OF_CLUSTER, OF_LAKE, judge, span
from metadata_source.outcomes import TO_DO
from tests.support.for_each import for_each
from tests.support.statuses import (
    BY_LOG,
    NO_GROUPS,
    NOT_WHOLE,
    NOW,
    REFUSED_CONFIGS,
    WELL,
    S,
    crossed,
    facts,
    waiting,
)

NOT_HISTORY = "; polls tell topics and partitions, and no round of history has had it yet"


SILVER_WAITS = replace(WELL, waiting=waiting("silver", silver=NOW - 301 * S))


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
        (
            replace(WELL, transaction_log=Log(NOW, 3)),
            {},
            (
                "lostOffsets: 3 offset(s) of __transaction_state were gone before they could be "
                "read, or cannot be read"
            ),
        ),
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


@for_each("kind", TO_DO)
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


def test_every_threshold_is_a_key_of_the_configuration() -> None:
    assert {*OF_CLUSTER, *OF_LAKE} == FILE["status"].keys() - {"window"}


@pytest.mark.parametrize(
    ("time", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 d")],
)
def test_a_time_for_people(time: float, text: str) -> None:
    assert span(time * S) == text
