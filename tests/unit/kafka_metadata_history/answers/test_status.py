"""The status of a lake: facts out of rows."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.configuration.limits import Limits
from kafka_metadata_history.answers.status import (
    ClusterLog,
    LeftOutOf,
    Log,
    PollCounts,
    Size,
)
from kafka_metadata_history.answers.thresholds import judge
from tests.support.statuses import (
    NOW,
    OLDER,
    READ,
    STREAM,
    WELL,
    S,
    cluster,
    crossed,
    facts,
    header,
    silver,
)


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
    assert cluster(*told, *others).polls.polls == len(others), "a visit is no poll"
    assert cluster(*others, asked=("prod",)).offsets_at is None
    assert cluster(*told).offsets_at is None, "nobody is to ask any more"


def test_a_cluster_whose_answers_are_taken_has_one_alias() -> None:
    of_prod = cluster(header(9, cluster_id="id-prod"), known=(silver(9, cluster_id="id-prod"),))
    assert of_prod.known_as is None


@pytest.mark.parametrize(("waiting", "ignored"), [([], 0), ([f"{OLDER}/{8:012d}"], 1)])
def test_a_poll_of_an_older_stream_that_history_did_not_decide_about_is_ignored(
    waiting: list[str], ignored: int
) -> None:
    known = silver(2, taken={OLDER: 9, STREAM: 2}, waiting=waiting)
    assert cluster(header(2), header(8, stream=OLDER), known=(known,)).polls.ignored == ignored


def test_a_lake_has_the_bytes_of_its_tables_and_of_their_logs() -> None:
    assert facts(WELL, sizes=[Size("a", 5, 1, 2), Size("b", 6, 1)]).bytes == 13
