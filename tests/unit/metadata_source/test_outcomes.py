"""The outcome of a question, in one stable word and a line."""

import pytest

from metadata_source.errors import PollError
from metadata_source.outcomes import answered, failed, is_answered, outcome_of, put_off, reason


@pytest.mark.parametrize(
    ("outcome", "said", "has_answer"),
    [
        (answered(), "ok", True),
        (answered("two\nlines"), "ok: two lines", True),
        (failed("two\nlines"), "failed: two lines", False),
        (put_off("no time"), "failed: put off: no time", False),
        (outcome_of(PollError("authorization", "x")), "not_allowed", False),
        (outcome_of(PollError("unsupported_version", "x")), "not_supported", False),
        (outcome_of(PollError("timeout", "x")), "failed: x", False),
    ],
)
def test_outcomes(outcome, said, has_answer):
    assert (outcome, is_answered(outcome)) == (said, has_answer)


def test_a_person_is_told_what_to_do_where_no_later_poll_mends_it():
    assert reason("timeout", "no answer") == "timeout: no answer"
    assert reason("clock", None) == "clock"
    assert reason("too_large", "9 MB") == "too_large: 9 MB; raise maxResponseBytes"
