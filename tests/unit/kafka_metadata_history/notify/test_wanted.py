"""Which alerts a target gets, and which are silenced."""

from dataclasses import replace

import pytest

from jobs.configuration.notify import Silence, Target
from kafka_metadata_history.notify.alert import Alert, of_lake
from kafka_metadata_history.notify.wanted import Window, is_silenced, passes
from tests.support.alerts import EVERYTHING, NOON, after, alert, ended

LAKE = of_lake("it is not there", NOON)


@pytest.mark.parametrize(
    ("target", "of", "expected"),
    [
        (EVERYTHING, alert(severity="info"), True),
        (replace(EVERYTHING, severity="ticket"), alert(severity="info"), False),
        (replace(EVERYTHING, severity="ticket"), alert(severity="page"), True),
        (replace(EVERYTHING, clusters=("other", "prod")), alert(), True),
        (replace(EVERYTHING, clusters=("other",)), alert(), False),
        (replace(EVERYTHING, clusters=("other",)), LAKE, True),
        (replace(EVERYTHING, kinds=("broker_missing",)), alert(), True),
        (replace(EVERYTHING, kinds=("group_stuck",)), alert(), False),
        (replace(EVERYTHING, kinds=("group_stuck",)), LAKE, False),
    ],
)
def test_a_target_is_narrowed(target: Target, of: Alert, expected: bool) -> None:
    assert passes(of, target) is expected


@pytest.mark.parametrize(
    ("silence", "expected"),
    [
        (Silence(), True),
        (Silence(cluster="prod", kind="broker_missing", broker=3), True),
        (Silence(cluster="other"), False),
        (Silence(kind="group_stuck"), False),
        (Silence(broker=4), False),
        (Silence(until=after(60)), True),
        (Silence(until=after(59)), False),
        (Silence(marks=True), False),
    ],
)
def test_a_silence_covers_what_it_names(silence: Silence, expected: bool) -> None:
    assert is_silenced(alert(), [silence], [], after(60)) is expected


def test_all_brokers_of_an_alert_have_to_be_silenced() -> None:
    both = alert(brokers=(3, 4))
    assert not is_silenced(both, [Silence(broker=3)], [], NOON)
    assert is_silenced(both, [Silence(broker=3), Silence(broker=4)], [], NOON)
    assert not is_silenced(both, [Silence(broker=3), Silence(broker=4, cluster="x")], [], NOON)
    assert not is_silenced(alert(brokers=()), [Silence(broker=3)], [], NOON)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window(None, after(0), after(60)), True),
        (Window("prod", after(60), after(90)), True),
        (Window("other", after(0), after(90)), False),
        (Window("prod", after(0), after(59)), False),
        (Window("prod", after(61), after(90)), False),
    ],
)
def test_marks_silence_while_their_window_lasts(window: Window, expected: bool) -> None:
    assert is_silenced(alert(), [Silence(marks=True)], [window], after(60)) is expected
    assert not is_silenced(alert(), [Silence(marks=True, kind="group_stuck")], [window], after(60))


def test_of_what_is_over_the_time_of_its_end_counts() -> None:
    over, silence = ended(alert(), seconds=60), Silence(until=after(60))
    assert is_silenced(over, [silence], [], after(1000))
    window = Window(None, after(0), after(90))
    assert is_silenced(over, [Silence(marks=True)], [window], after(1000))
