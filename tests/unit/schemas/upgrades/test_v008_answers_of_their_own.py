"""Memory of version 7 as version 8 reads it."""

import json
from datetime import UTC, datetime
from pathlib import Path

from jobs.rules.gold.news import Elr, Known
from jobs.rules.groups import state as groups
from jobs.rules.groups.group import Life
from jobs.rules.groups.lag import Memory
from jobs.rules.memory import from_json, loads
from schemas.groups import GROUP_LIVES
from schemas.upgrades.v008_answers_of_their_own import group, lag, state
from tests.support.group_records import Log
from tests.support.group_rounds import Rounds


def test_eligible_leaders_were_told_by_the_last_poll_at_the_latest() -> None:
    elr = {"elr": [1], "last_known_elr": [2]}
    old = json.dumps({"racks": [[1, "a"]], "elr": [[["orders", 0], elr]]})
    at = datetime(2026, 11, 1, 12, tzinfo=UTC)
    made = loads(Known, str(state("isr_shrink", old, int(at.timestamp() * 1e6), [])))
    assert made == Known(racks={1: "a"}, elr={("orders", 0): Elr([1], [2], at)})
    assert json.loads(str(state("leader_churn", old, None, []))) == {"racks": [[1, "a"]]}
    assert state("silver", None, None, []) is None


def test_the_log_was_read_for_the_cost_of_rebalances_of_each_cluster() -> None:
    old = json.dumps({"told": "2026-11-01T12:00:00+00:00", "read": "2026-11-01T12:01:00+00:00"})
    assert json.loads(str(state("rebalance_cost", old, 0, ["a", "b"]))) == {
        "told": "2026-11-01T12:00:00+00:00",
        "read": dict.fromkeys("ab", "2026-11-01T12:01:00+00:00"),
    }


def test_partitions_that_were_given_up_stay_so_until_the_next_generation() -> None:
    of_log = {
        "state": {
            "now": {
                "group_type": "classic",
                "initializing": True,
                "members": {"m1": {"has": {"initializing": [0]}}},
            },
            "rebalance": {
                "began": {"by": "2026-11-01T12:00:00+00:00"},
                "withheld": {"orders": [1, 2]},
                "awaits_epoch": True,
            },
        },
        "life": {},
    }
    old = json.dumps({"told_at": 5, "log": {"3": of_log}})
    made = json.loads(str(group(old, ["b", "a"])))["log"]["3"]
    read = groups.from_json(made["state"])
    assert read.rebalance is not None
    assert read.rebalance.given_up == {"m1": {"orders": [1, 2]}}
    assert read.now.members["m1"].has == {"initializing": [0]}
    assert made["life"] == {}
    assert made["recent"] == ["a", "b"]
    assert json.loads(str(group('{"told_at":5}', None))) == {"told_at": 5}
    assert group(None, []) is None


def test_memories_that_version_7_wrote_are_read() -> None:
    """Of random lives of groups of every kind, cut anywhere, by the program of version 7."""
    texts = (Path(__file__).parent / "data" / "group_memories_7.jsonl").read_text().splitlines()
    assert any('"withheld"' in text for text in texts)
    assert any('"awaits_epoch"' in text for text in texts)
    for text in texts:
        made = json.loads(str(group(text, ["id"])))
        for of_partition in made["log"].values():
            read = groups.from_json(of_partition["state"])
            assert json.loads(json.dumps(groups.to_json(read))) == of_partition["state"]
            assert from_json(Life, of_partition["life"]) is not None
        rounds = Rounds()
        rounds.memory = json.dumps(made)
        # A tombstone follows: the group is gone.
        tombstone = {"classic": 2, "consumer": 3, "share": 11}[str(read.now.group_type)]
        rounds.take(Log(next_offset=10_000).batch(3600, (tombstone, None, None)).rows, read_on=1)
        (life,) = rounds.of(GROUP_LIVES)
        assert life["valid_to"] is not None


def test_the_window_of_a_lag_begins_with_the_last_visit() -> None:
    kept = [1_000, 1_200, 200, 5, 7, 10, 3, 1, 2, 3, 4]
    old = {"due": 1, "agreed": 2, "missed": [3, 4], "times": [7, 0], "topics": {"t": {"0": kept}}}
    made = Memory.from_json(json.loads(str(lag(json.dumps(old)))))
    partition = made.partitions["t", 0]
    assert (made.due, made.agreed, made.missed, made.times) == (1, 2, (3, 4), [])
    assert (partition.offset, partition.end, partition.lags) == (1_000, 1_200, [200])
    assert (partition.after, partition.before, partition.oldest) == (5, 7, 7)
    assert partition.status(at=8) is None
    assert lag(None) is None
