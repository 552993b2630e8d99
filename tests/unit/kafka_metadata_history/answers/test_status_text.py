"""The status as a table for people, as JSON, and as Prometheus reads it."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from jobs.configuration.limits import Limits
from jobs.run.unanswered import Asked
from kafka_metadata_history.answers.status import (
    Log,
    PollCounts,
    Size,
)
from kafka_metadata_history.answers.status_text import as_json, as_prometheus, as_table
from kafka_metadata_history.answers.thresholds import OF_CLUSTER, OF_LAKE, Crossed, judge
from metadata_source.outcomes import TO_DO
from tests.support.examples import examples
from tests.support.statuses import (
    BY_LOG,
    HOSTILE,
    NO_GROUPS,
    NOT_WHOLE,
    NOW,
    REFUSED_CONFIGS,
    WELL,
    S,
    cluster,
    facts,
    header,
    silver,
    waiting,
)


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
    in_a_store = as_table(facts(WELL, sizes=[Size("c", 1, 1)]), [])
    assert ["all", "1", "1"] in [line.split() for line in in_a_store.splitlines()]


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
