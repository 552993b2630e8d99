"""Which entries are news, case by case."""

from dataclasses import replace

import pytest

from jobs.rules.silver.acceptance import BELIEVED_AFTER, BELIEVED_AFTER_POLLS
from metadata_source.poll import OVERLAPPED, Poll, Witness
from metadata_source.recorder.news import News, Seen, followed_s, news, seen

ONE, OTHER = b"one", b"other"
GOOD, TIMEOUT, TLS = Poll(broker="a:1"), Poll(error_kind="timeout"), Poll(error_kind="tls")


def behind(*brokers: str, is_behind: bool | None = True) -> Poll:
    return Poll(
        broker="a:1", witnesses=tuple(Witness(None, each, is_behind=is_behind) for each in brokers)
    )


def entry(
    poll: Poll,
    digest: bytes | None = None,
    at_s: float = 1_000.0,
    **beside: tuple[str, bytes | None],
):
    return at_s, poll, digest, beside


QUIET = entry(GOOD, ONE, groups=("ok", ONE), offsets=("ok", None))


@pytest.mark.parametrize(
    ("entries", "last"),
    [
        pytest.param([QUIET], "NEWS", id="the first of a run"),
        pytest.param([entry(TIMEOUT)], "NEWS", id="the first of a run fails"),
        pytest.param([QUIET, QUIET], "QUIET", id="the same"),
        pytest.param([QUIET, entry(GOOD, ONE)], "QUIET", id="nothing was asked"),
        pytest.param([QUIET, entry(GOOD, OTHER)], "NEWS", id="an answer that differs"),
        pytest.param([QUIET, entry(TIMEOUT)], "NEWS", id="begins to fail"),
        pytest.param([entry(TIMEOUT), entry(TIMEOUT)], "QUIET", id="fails as before"),
        pytest.param([entry(TIMEOUT), entry(TLS)], "NEWS", id="fails in another way"),
        pytest.param([QUIET, entry(TIMEOUT), QUIET], "NEWS", id="recovers with the same answer"),
        pytest.param([QUIET, entry(OVERLAPPED)], "QUIET", id="was not sent"),
        pytest.param([QUIET, entry(OVERLAPPED), QUIET], "QUIET", id="is sent again"),
        pytest.param(
            [entry(TIMEOUT), entry(OVERLAPPED), entry(TIMEOUT)],
            "QUIET",
            id="fails as before, one not sent",
        ),
        pytest.param(
            [entry(TIMEOUT), entry(OVERLAPPED), QUIET], "NEWS", id="recovers after one not sent"
        ),
        pytest.param([QUIET, entry(behind("b:1"), ONE)], "NEWS", id="a broker is behind"),
        pytest.param(
            [QUIET, entry(behind("b:1"), ONE), entry(behind("b:1"), ONE)],
            "QUIET",
            id="is still behind",
        ),
        pytest.param(
            [QUIET, entry(behind("b:1"), ONE), QUIET], "QUIET", id="was behind, and is not asked"
        ),
        pytest.param(
            [entry(behind("b:1"), ONE), entry(behind("b:1", "c:1"), ONE)],
            "NEWS",
            id="another is behind too",
        ),
        pytest.param(
            [entry(behind("b:1"), ONE), entry(behind("b:1", is_behind=False), ONE)],
            "NEWS",
            id="has followed",
        ),
        pytest.param(
            [entry(behind("b:1"), ONE), entry(behind("b:1", is_behind=None), ONE)],
            "QUIET",
            id="nobody knows",
        ),
        pytest.param(
            [entry(behind("b:1"), ONE), entry(Poll(broker="b:1"), ONE)],
            "NEWS",
            id="answers for itself",
        ),
        pytest.param([QUIET, entry(GOOD, ONE, groups=("ok", OTHER))], "NEWS", id="groups differ"),
        pytest.param(
            [QUIET, entry(GOOD, ONE, groups=("ok: 1 of 2 groups", ONE))], "QUIET", id="another line"
        ),
        pytest.param(
            [QUIET, entry(GOOD, ONE, groups=("failed: x", None))], "NEWS", id="a question fails"
        ),
        pytest.param(
            [
                QUIET,
                entry(GOOD, ONE, groups=("failed: 1.5 s", None)),
                entry(GOOD, ONE, groups=("failed: 2 s", None)),
            ],
            "QUIET",
            id="a question fails again",
        ),
        pytest.param(
            [
                QUIET,
                entry(GOOD, ONE, groups=("failed: x", None)),
                entry(GOOD, ONE, groups=("not_allowed", None)),
            ],
            "NEWS",
            id="a question fails in another way",
        ),
        pytest.param(
            [QUIET, entry(GOOD, ONE, groups=("failed: put off: x", None))],
            "QUIET",
            id="was not asked",
        ),
        pytest.param(
            [QUIET, entry(GOOD, ONE, offsets=("ok: 3 of 4", None))],
            "QUIET",
            id="offsets have no digest",
        ),
        pytest.param(
            [QUIET, entry(GOOD, ONE, offsets=("failed: x", None))], "NEWS", id="offsets fail"
        ),
        pytest.param(
            [QUIET, entry(GOOD, ONE, quorum=("ok", ONE))], "NEWS", id="the first answer of its kind"
        ),
        pytest.param(
            [QUIET, entry(GOOD, ONE), entry(GOOD, ONE, groups=("ok", ONE))],
            "QUIET",
            id="as the last of its kind",
        ),
    ],
)
def test_news(entries, last):
    before: Seen | None = None
    for at_s, poll, digest, beside in entries:
        now = seen(before, at_s, poll, digest, beside)
        found = news(before, now, 1.0)
        before = now
    assert found is News[last]


@pytest.mark.parametrize(
    ("interval_s", "after_s", "found"),
    [
        (1, 0, "FOLLOWS"),
        (1, 719.9, "FOLLOWS"),  # the longest default window, 10 min, and acceptance
        (1, 720, "QUIET"),
        (24, 719.9, "FOLLOWS"),
        (24, 720, "QUIET"),
        (300, 5 * 300, "FOLLOWS"),  # the fifth poll after it: it may be believed with that one
        (300, 5 * 300 + 599, "FOLLOWS"),
        (300, 5 * 300 + 600, "QUIET"),
        (1, 10**6, "QUIET"),
    ],
)
def test_what_follows_news_may_be_what_silver_waits_for(interval_s, after_s, found):
    first = replace(seen(None, 1_000.0, GOOD, ONE, {}), news_at_s=1_000.0)
    now = seen(first, 1_000.0 + after_s, GOOD, ONE, {})
    assert news(first, now, interval_s) is News[found]
    assert now.news_at_s == 1_000.0


def test_silver_believes_within_the_polls_that_follow_news():
    for interval_s in (1, 10, 60, 3_600):
        believed_s = max(BELIEVED_AFTER.total_seconds(), BELIEVED_AFTER_POLLS * interval_s)
        assert followed_s(interval_s) >= believed_s + 600


@pytest.mark.parametrize(
    ("after_s", "found"), [(1.0, News.FOLLOWS), (59.9, News.FOLLOWS), (60.0, News.NEWS)]
)
def test_a_cluster_that_fails_now_in_this_way_now_in_that_is_news_once_a_minute(after_s, found):
    before = Seen(1_000.0, error_kind="timeout", digest=ONE, news_at_s=1_000.0)
    assert news(before, seen(before, 1_000.0 + after_s, TLS, None, {}), 1.0) is found
    assert news(before, seen(before, 1_000.0 + after_s, GOOD, ONE, {}), 1.0) is News.NEWS, (
        "recovers"
    )
    good = Seen(1_000.0, digest=ONE, news_at_s=1_000.0)
    assert news(good, seen(good, 1_000.0 + after_s, TIMEOUT, None, {}), 1.0) is News.NEWS, (
        "begins to"
    )
