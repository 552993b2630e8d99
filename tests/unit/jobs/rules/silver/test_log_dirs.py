"""A directory of a broker that does not answer has changed since that broker's last answer."""

import json
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.silver.state import State
from schemas import silver
from tests.support.histories import START, Answer
from tests.support.silver_cases import Row, led, poll, rows, taken

ONLINE, FAILED = (0, 100, True), (56, None, False)


def asked(n: int, *, silent: tuple[int, ...] = (), **of_brokers: Any) -> Answer:
    """A poll each 10 s; directories are asked 0.1 s later. `b1`: the state of the one of broker
    1, ...
    """
    states = {(int(name[1:]), "/d"): state for name, state in of_brokers.items()}
    return poll(
        n,
        None,
        {"t": [led(5)]},
        enriched={"log_dirs": "ok: some are silent" if silent else "ok"},
        enrichments={"log_dirs": states},
        asked_ms=100,
        silent_brokers=frozenset(silent),
        lasting={(each, "/d"): ONLINE for each in silent},
    )


def seconds(n: float) -> datetime:
    return START + timedelta(seconds=n)


def of_broker(broker_id: int, *answers: Answer) -> list[Row]:
    return [row for row in rows(taken(*answers), silver.LOG_DIRS) if row["broker_id"] == broker_id]


def test_a_directory_may_have_failed_since_its_broker_answered_last() -> None:
    polls = [
        asked(0, b1=ONLINE, b2=ONLINE),
        asked(1, b1=ONLINE, b2=ONLINE),
        # Broker 1 has news meanwhile.
        *(asked(n, silent=(2,), b1=FAILED if n == 4 else ONLINE) for n in (2, 3, 4)),
        asked(5, b1=FAILED, b2=FAILED),
        asked(6, b1=FAILED, b2=ONLINE),
    ]
    first, failed, back = of_broker(2, *polls)
    assert (first["last_poll"], first["last_seen_sent_at"]) == (polls[1].poll_id, seconds(10.1))
    assert (failed["prev_sent_at"], failed["valid_from"]) == (seconds(10.1), seconds(50.2))
    assert back["prev_sent_at"] == seconds(50.1), "it answered the time before"
    (_, of_other) = of_broker(1, *polls)
    assert of_other["prev_sent_at"] == seconds(30.1)


def test_a_broker_that_is_gone_after_it_was_silent_was_seen_when_it_answered_last() -> None:
    polls = [
        asked(0, b1=ONLINE, b2=ONLINE),
        *(asked(n, silent=(2,), b1=ONLINE) for n in (1, 2)),
        asked(3, b1=ONLINE),
    ]
    (row,) = of_broker(2, *polls)
    assert (row["last_seen_sent_at"], row["end_reason"]) == (seconds(0.1), "gone")


def test_a_silent_broker_is_noted_though_the_digest_of_what_all_said_last_is_the_same() -> None:
    """Silver reads such an answer, and the next one, which may be whole again."""
    silent = [asked(0, b1=ONLINE, b2=ONLINE), asked(1, silent=(2,), b1=ONLINE)]
    changed = asked(2, b1=FAILED, b2=FAILED)
    (_, of_silent), (_, of_other) = (of_broker(each, *silent, changed) for each in (2, 1))
    assert of_silent["prev_sent_at"] == seconds(0.1)
    assert of_other["prev_sent_at"] == seconds(10.1)
    again = [asked(2, b1=ONLINE, b2=ONLINE), asked(3, b1=ONLINE, b2=FAILED)]
    (_, failed) = of_broker(2, *silent, *again)
    assert failed["prev_sent_at"] == seconds(20.1), "it answered the time before"


def test_nothing_is_known_from_before_of_a_broker_that_never_answered() -> None:
    polls = [asked(0, silent=(2,), b1=ONLINE), asked(1, b1=ONLINE, b2=FAILED)]
    (row,) = of_broker(2, *polls)
    assert row["prev_sent_at"] is None


def test_the_last_answers_of_silent_brokers_outlive_a_run() -> None:
    state = taken(asked(0, b1=ONLINE, b2=ONLINE), asked(1, silent=(2, 3), b1=ONLINE)).state
    assert state is not None
    assert {each: last and last.sent_at for each, last in state.silent_brokers.items()} == {
        2: seconds(0.1),
        3: seconds(0.1),
    }
    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state
