"""Which answers are believed, and when.

A failed poll says nothing. An answer of another cluster than the alias stands for is refused. An
answer with one lower leader epoch under the same topic id comes from a lagging broker. The whole of
it is stale, since all its topics come from one image. An answer is stale, too, if it shows a topic
id that another one under the same name has replaced. Without topic ids, a topic that was made again
has lower epochs too: `is_stale` tells the two apart. An answer is stale, too, if it has news that
nobody else confirmed of a broker that the cluster does not list: it may be fenced, and its image an
old one. A stale answer waits, and is believed once `BELIEVED_AFTER_POLLS` such answers, of two
brokers at least, and `BELIEVED_AFTER` have gone by with no better one between them; or `BY_COUNT`
times as many where the clock stands. The first better one discards those that waited. Of those that
one broker alone gives, the oldest are let go while the others would be enough in time. A person can
say that what waits is believed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from jobs.rules.silver.state import Header
from jobs.rules.silver.topic_lives import Answer, TopicLives
from metadata_source.kafka_constants import KEY_FRAME_EVERY

BELIEVED_AFTER_POLLS = 5
BELIEVED_AFTER = timedelta(seconds=60)
BY_COUNT = 2
"""So many times as many answers, and intervals between them that are together as many times as
long, are enough where no time passes: a clock was ahead, and times of history do not fall.
"""

MOST_FAILED = 100
"""So many failed or refused polls may wait between answers; then the oldest answers are let go."""

ANSWERED, FAILED, REFUSED, STALE = "answered", "failed", "refused", "stale"


def outcome(header: Header, cluster_id: str | None) -> str:
    """Whether a poll was answered, failed or refused. `cluster_id`: what the alias stands for; None
    while it has none.

    An answer that does not tell a cluster id (Metadata before v2) is taken for the same cluster's.
    """
    if header["outcome"] != "ok":
        return FAILED
    return (
        REFUSED
        if cluster_id is None or header["cluster_id"] not in {None, cluster_id}
        else ANSWERED
    )


def is_stale(answer: Answer, lives: TopicLives, *, shows_again: bool) -> bool:
    """Whether an image is an old one: one epoch is lower than the last that was told, and the topic
    is no other one, or a topic is shown that was made again since.

    Without topic ids, one topic that alone was made again (inferred) shows it by its epochs, but so
    may an old image. No image goes back. So a broker that showed the higher epochs before has no
    old one: `shows_again`, whether such a one shows the answer.
    """
    if any(lives.has_ended(topic, said) for topic, said in answer.topics.items()):
        return True
    fallen = [topic for topic, said in answer.topics.items() if lives.has_fallen(topic, said)]
    return bool(fallen) and not (
        shows_again
        and len(fallen) == 1
        and lives.is_made_again(fallen[0], answer.topics[fallen[0]])
    )


def shows_again(header: Header, answered_by: int | None) -> bool:
    """Whether a broker, the one that `answered_by` then, shows an answer itself or as a witness."""
    heard = {told["broker_id"] for told in header["witnesses"] or () if told["is_behind"] is False}
    return answered_by is not None and answered_by in {header["broker_id"], *heard}


def seen_at(header: Header) -> datetime:
    """By when a good poll's answer was true: once it came, or once another broker, which was asked
    about its news, showed the same.

    A broker alone may be behind, and the old state that it shows may come back before the other
    answers.
    """
    answered: datetime = header["received_at"]
    confirmed = [
        told["received_at"]
        for told in header["witnesses"] or ()
        if told["is_behind"] is False and told["received_at"] is not None
    ]
    return max(answered, min(confirmed, default=answered))


def is_by_unlisted(header: Header, listed: Collection[int]) -> bool:
    """Whether a broker answered that the cluster, as last accepted, does not list, and no other
    broker was asked.

    The answer of the first broker that starts again after all have stopped lists nobody else: it is
    not in doubt.
    """
    broker = header["broker_id"]
    others = {each["broker_id"] for each in header["brokers"] or ()} - {broker}
    is_confirmed = any(told["error_kind"] is None for told in header["witnesses"] or ())
    return (
        bool(listed)
        and broker is not None
        and broker not in listed
        and bool(others)
        and not is_confirmed
    )


def has_lost(broker: int, header: Header, answer: Answer, lives: TopicLives) -> bool:
    """Whether an answer shows that a broker lost something: its place in the list, in an ISR, or as
    a leader.

    A partition that it leads as before, two leader epochs later, it may have lost meanwhile. Such a
    broker may be one that was cut off from the controllers, and what it said just before of an old
    image.
    """
    if broker not in {each["broker_id"] for each in header["brokers"] or ()}:
        return True
    for topic, said in answer.topics.items():
        if lives.shows_another(topic, said):
            continue
        for number, partition in said.partitions.items():
            known = lives.partitions.open.get((topic, number))
            if known is None:
                continue
            if known["leader"] == broker and (
                partition["leader"] != broker or _is_led_again(known, partition)
            ):
                return True
            if broker in (known["isr"] or ()) and broker not in (partition["isr"] or ()):
                return True
    return False


def _is_led_again(known: Mapping[str, Any], partition: Mapping[str, Any]) -> bool:
    """Whether leader epochs leave room for another leader between two states: away and back."""
    before, epoch = known["leader_epoch"], partition["leader_epoch"]
    return None not in (before, epoch) and epoch - before >= 2


def highest_after(header: Header, before: Mapping[int, int]) -> dict[int, int]:
    """The highest level of metadata.version that each broker has, of those that a good poll lists:
    as `before`, and of the one that answered as its answer says.
    """
    broker, level = header["broker_id"], header["metadata_version_highest"]
    highest = {**before} if None in (broker, level) else {**before, broker: level}
    listed = {each["broker_id"] for each in header["brokers"] or ()}
    return {each: highest[each] for each in sorted(listed & highest.keys())}


def are_believed(headers: Sequence[Header], accepted_at: datetime) -> bool:
    """Whether stale answers, by their headers in order of polling, are enough. Clocks may have
    stepped back: then it is the intervals at which they were polled that count.

    One broker that repeats itself is not, unless it lists no other. Behind an address of several
    brokers nobody knows which of them answered.
    """
    brokers = {header["broker_id"] for header in headers}
    are_several = len(brokers) > 1 or None in brokers or len(headers[-1]["brokers"] or ()) == 1
    return are_several and _have_lasted(headers, accepted_at)


def _have_lasted(headers: Sequence[Header], accepted_at: datetime) -> bool:
    """Whether stale answers are enough in number and time, whoever gave them."""
    times = list(accumulate([accepted_at, *(header["received_at"] for header in headers)], max))[1:]
    planned = timedelta(milliseconds=sum(header["interval_ms"] or 0 for header in headers[1:]))
    by_clock = len(times) >= BELIEVED_AFTER_POLLS and times[-1] - times[0] >= BELIEVED_AFTER
    by_count = (
        len(times) >= BY_COUNT * BELIEVED_AFTER_POLLS and planned >= BY_COUNT * BELIEVED_AFTER
    )
    return by_clock or by_count


def let_go(waiting: Sequence[tuple[Header, bool]], accepted_at: datetime) -> int:
    """How many of the first polls that wait need not wait any more, as those after them would be
    enough without them. `waiting`: each with whether it is an answer, in order of polling.

    An answer that is no key frame tells only what differs from the polls before it: those that stay
    begin with a key frame. If too many of them failed, those after a later one stay, or none once
    the next answer is sure to be one.
    """
    begins = [
        n for n, (header, is_answer) in enumerate(waiting) if is_answer and header["is_key_frame"]
    ]
    answers = [(n, header) for n, (header, is_answer) in enumerate(waiting) if is_answer]
    gone = next(
        (
            n
            for n in reversed(begins)
            if _have_lasted([h for m, h in answers if m >= n], accepted_at)
        ),
        0,
    )
    while sum(not is_answer for _, is_answer in waiting[gone:]) > MOST_FAILED:
        if (later := next((n for n in begins if n > gone), None)) is None:
            is_followed_by_one = (
                waiting[-1][0]["scheduled_at"] - answers[-1][1]["scheduled_at"] > KEY_FRAME_EVERY
            )
            return len(waiting) if is_followed_by_one else gone
        gone = later
    return gone


def claims(pairs: Iterable[tuple[str, str, datetime]]) -> dict[str, str]:
    """Alias -> the cluster id that it stands for, one to one. `pairs`: alias, an id that it showed,
    since when.

    Whoever shows an id first has it, and the first id that an alias can have is its own for good.
    """
    found: dict[str, str] = {}
    for alias, cluster_id, _ in sorted(pairs, key=lambda pair: (pair[2], pair[0])):
        if alias not in found and cluster_id not in found.values():
            found[alias] = cluster_id
    return found
