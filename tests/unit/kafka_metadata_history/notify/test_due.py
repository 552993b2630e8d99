"""Which messages are due, of what is so now and of what was sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.configuration.notify import Silence, Target
from kafka_metadata_history.notify.alert import Alert
from kafka_metadata_history.notify.due import SUMMED, Action, Message, Seen, Sent, due
from tests.support.alerts import EVERYTHING, NOON, PAGES, after, alert, ended, seen
from tests.support.examples import examples


def due_of(
    now: Seen,
    sent: Mapping[str, Sent],
    target: Target = EVERYTHING,
    silences: Sequence[Silence] = (),
) -> list[Message]:
    return due(now, sent, target, silences, NOON)


def actions(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(message.action, message.alert.key) for message in messages]


def after_all(messages: Sequence[Message], sent: Mapping[str, Sent]) -> dict[str, Sent]:
    found = dict(sent)
    for message in messages:
        found |= message.becomes
    return found


def test_one_message_when_it_opens_and_none_while_it_lasts() -> None:
    (message,) = due_of(seen(alert()), {})
    assert (message.action, message.key) == (Action.OPENED, "a-opened-1")
    assert due_of(seen(alert()), message.becomes) == []


@pytest.mark.parametrize(
    "more",
    [{"severity": "page"}, {"level": "offline"}, {"brokers": (3, 4)}],
    ids=["severity", "level", "broker"],
)
def test_one_message_when_it_is_worse(more: dict[str, object]) -> None:
    sent = after_all(due_of(seen(alert(level="at_min_isr")), {}), {})
    worse = alert(**{"level": "at_min_isr", **more})
    (message,) = due_of(seen(worse), sent)
    assert (message.action, message.alert, message.before) == (
        Action.WORSE,
        worse,
        sent["a"].alert,
    )
    sent = after_all([message], sent)
    assert due_of(seen(worse), sent) == []
    assert due_of(seen(alert()), sent) == [], "it eased"
    assert due_of(seen(worse), sent) == [], "it is as bad as it was"


def test_worse_in_two_ways_are_messages_with_keys_of_their_own() -> None:
    sent = after_all(due_of(seen(alert()), {}), {})
    keys = {
        due_of(seen(alert(**more)), sent)[0].key
        for more in (
            {"severity": "page"},
            {"level": "offline"},
            {"brokers": (4,)},
            {"brokers": (5,)},
        )
    }
    assert len(keys) == 4


@pytest.mark.parametrize("reason", ["recovered", "removed", "merged", "withdrawn"])
def test_one_message_when_it_is_over(reason: str) -> None:
    sent = after_all(due_of(seen(alert()), {}), {})
    over = ended(alert(), reason=reason)
    (message,) = due_of(seen(over), sent)
    assert (message.action, message.key, message.alert) == (Action.ENDED, "a-ended-1", over)
    assert due_of(seen(over), after_all([message], sent)) == []


def test_what_the_lake_no_longer_has_is_over_if_the_lake_could_be_read() -> None:
    sent = after_all(due_of(seen(alert()), {}), {})
    assert due_of(seen(is_known=False), sent) == []
    (message,) = due_of(seen(), sent)
    assert (message.action, message.alert.end_reason) == (Action.ENDED, "gone")


def test_what_comes_back_is_opened_again_with_another_key() -> None:
    sent = after_all(due_of(seen(alert()), {}), {})
    sent = after_all(due_of(seen(ended(alert())), sent), sent)
    (message,) = due_of(seen(alert()), sent)
    assert (message.action, message.key) == (Action.OPENED, "a-opened-2")


def test_it_opens_at_a_target_once_it_is_bad_enough_for_that() -> None:
    assert due_of(seen(alert()), {}, PAGES) == []
    (message,) = due_of(seen(alert(severity="page")), {}, PAGES)
    assert message.action is Action.OPENED


def test_what_is_open_at_a_target_ends_there_though_it_would_not_open_any_more() -> None:
    sent = after_all(due_of(seen(alert(severity="page")), {}, PAGES), {})
    silences = [Silence(until=after(10_000))]
    assert due_of(seen(alert(severity="page", level="offline")), sent, PAGES, silences) == []
    (message,) = due_of(seen(ended(alert())), sent, PAGES, silences)
    assert message.action is Action.ENDED


def test_it_opens_once_a_silence_is_over() -> None:
    silences = [Silence(until=after(60))]
    assert due_of(seen(alert(), seconds=60), {}, silences=silences) == []
    assert actions(due_of(seen(alert(), seconds=61), {}, silences=silences)) == [("opened", "a")]


def test_what_opened_and_ended_unseen_is_one_summary() -> None:
    found = [
        ended(alert("a")),
        ended(alert("b", severity="page")),
        alert("c"),
        ended(alert("merged"), reason="merged"),
        ended(alert("withdrawn"), reason="withdrawn"),
        ended(alert("before"), seconds=-1),
    ]
    opened, summary = due_of(seen(*found), {})
    assert (opened.action, opened.alert.key) == (Action.OPENED, "c")
    assert [each.key for each in summary.over] == ["a", "b"]
    assert summary.alert.title.startswith("2 incidents opened and ended since 2026-11-01 12:00:00Z")
    assert due_of(seen(*found), after_all([opened, summary], {})) == []
    again, one = due_of(seen(*found), {"a": summary.becomes["a"]})
    assert (again.key, one.key == summary.key) == (opened.key, False)


def test_a_summary_is_bounded() -> None:
    (summary,) = due_of(seen(*(ended(alert(f"a{number}")) for number in range(1000))), {})
    assert len(summary.over) == 1000
    assert summary.alert.text.splitlines()[SUMMED:] == ["and 980 more"]


def test_a_summary_is_narrowed_as_other_messages_are() -> None:
    found = [ended(alert("a"), seconds=30), ended(alert("b", severity="page"), seconds=70)]
    (summary,) = due_of(seen(*found), {}, PAGES)
    assert [each.key for each in summary.over] == ["b"]
    (summary,) = due_of(seen(*found), {}, silences=[Silence(until=after(60))])
    assert [each.key for each in summary.over] == ["b"], "the other one ended in the silence"


def test_what_may_have_arrived_is_sent_again_with_its_key_or_summed_up_as_over() -> None:
    (message,) = due_of(seen(alert()), {})
    unsure = {"a": replace(message.becomes["a"], is_sure=False)}
    assert due_of(seen(alert()), unsure) == [message]
    for now in (seen(ended(alert())), seen(ended(alert(), reason="merged")), seen()):
        (summary,) = due_of(now, unsure, PAGES)
        assert [each.key for each in summary.unsure] == ["a"]
        assert due_of(now, after_all([summary], unsure), PAGES) == []


def test_what_opens_again_after_an_end_that_may_have_arrived_ends_first() -> None:
    sent = after_all(due_of(seen(alert()), {}), {})
    (end,) = due_of(seen(ended(alert())), sent)
    unsure = sent | end.may_become
    again, opened = due_of(seen(alert()), unsure)
    assert (again.action, again.key) == (Action.ENDED, end.key)
    assert (opened.action, opened.key) == (Action.OPENED, "a-opened-2")
    assert due_of(seen(alert()), after_all([again, opened], unsure)) == []


def test_a_summary_that_may_have_arrived_is_sent_again_as_it_was() -> None:
    found = [ended(alert("a")), ended(alert("b"))]
    (summary,) = due_of(seen(*found), {})
    again, opened = due_of(seen(alert("a"), found[1]), summary.may_become)
    assert (again.key, again.action) == (summary.key, Action.SUMMARY)
    assert (opened.key, opened.alert.key) == ("a-opened-1", "a")
    assert due_of(seen(*found), after_all([again], summary.may_become)) == []


# --- whatever fails between ---


@dataclass
class World:
    """A lake with incidents, a target that drops doubles, and what is remembered of it."""

    alerts: dict[str, Alert] = field(default_factory=dict)
    sent: dict[str, Sent] = field(default_factory=dict)
    received: dict[str, Message] = field(default_factory=dict)
    """In the order in which they came first, by their keys."""
    open_there: set[str] = field(default_factory=set)
    seconds: float = 0.0

    def change(self, key: str, severity: str, end: str | None) -> None:
        self.seconds += 1
        now = alert(key, severity=severity)
        self.alerts[key] = now if end is None else ended(now, self.seconds, end)

    def deliver(self, target: Target, fates: Sequence[str]) -> None:
        """Send what is due; of each message: ok, lost, not_recorded (and then a restart)."""
        self.seconds += 1
        now = seen(*self.alerts.values(), seconds=self.seconds)
        for message, fate in zip(due_of(now, self.sent, target), fates, strict=False):
            self.sent |= message.may_become
            if fate == "lost":
                return
            self._receive(message)
            if fate == "not_recorded":
                return
            self.sent |= message.becomes

    def _receive(self, message: Message) -> None:
        if message.key in self.received:
            assert self.received[message.key].action == message.action
            return
        self.received[message.key] = message
        if message.action is Action.OPENED:
            assert message.alert.key not in self.open_there, "it is open there already"
            self.open_there.add(message.alert.key)
        if message.action in {Action.WORSE, Action.ENDED}:
            assert message.alert.key in self.open_there
        if message.action is Action.ENDED:
            self.open_there.remove(message.alert.key)
        if message.action is Action.SUMMARY:
            self.open_there -= {each.key for each in message.over}


KEYS, FATES = ["a", "b", "c"], ["ok", "lost", "not_recorded"]
CHANGES = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from(["info", "ticket", "page"]),
    st.sampled_from([None, None, "recovered", "merged", "withdrawn"]),
)
STEPS = st.lists(CHANGES | st.lists(st.sampled_from(FATES), min_size=1, max_size=4), max_size=30)


@given(STEPS, st.sampled_from([EVERYTHING, PAGES, replace(EVERYTHING, severity="ticket")]))
@settings(max_examples=examples(200))
def test_all_that_lasts_is_open_at_the_target_and_all_that_is_over_is_not(
    steps: list[tuple[str, str, str | None] | list[str]], target: Target
) -> None:
    world = World()
    for step in steps:
        if isinstance(step, tuple):
            world.change(*step)
        else:
            world.deliver(target, step)
    world.deliver(target, ["ok"] * 10)
    order = ["info", "ticket", "page"]
    lasting = {key for key, each in world.alerts.items() if each.is_open}
    bad = {
        key
        for key in lasting
        if order.index(world.alerts[key].severity) >= order.index(target.severity)
    }
    assert bad <= world.open_there <= lasting
    known = {
        key
        for each in world.received.values()
        for key in (each.alert.key, *(of.key for of in each.over))
    }
    for key, each in world.alerts.items():
        if each.end_reason == "recovered" and order.index(each.severity) >= order.index(
            target.severity
        ):
            assert key in known, "it opened and ended, and no message has it"
    before = len(world.received)
    world.deliver(target, ["ok"] * 10)
    assert len(world.received) == before, "a message without news"
