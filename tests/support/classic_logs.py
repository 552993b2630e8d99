"""Logs of classic groups whose members consume the four partitions of t."""

from tests.support.group_records import Log, Row, classic, classic_member

ALONE, LOW, HIGH = {"t": [0, 1, 2, 3]}, {"t": [0, 1]}, {"t": [2, 3]}
TOMBSTONE = (2, None, None)


def m(member_id, has=None, owned=None, **more) -> Row:
    return classic_member(member_id, has=has, owned=owned, **more)


def started(**options) -> Log:
    """A group that was created, and has one member since generation 1."""
    log = Log().batch(0, classic(0, protocol_type=""))
    return log.batch(1, classic(1, [m("a", ALONE)], state_seconds=0.99, **options))


def cooperative(generation: int, *members: Row, at_seconds: float | None = None):
    return classic(generation, members, protocol="cooperative-sticky", state_seconds=at_seconds)


def taking(*members: Row) -> Log:
    """A cooperative group at generation 1."""
    return Log().batch(0, classic(0)).batch(1, cooperative(1, *members))


def two_phases() -> Log:
    """`b` joined a cooperative group, and `a` gave up what it is to have."""
    halved = cooperative(2, m("a", LOW, owned=ALONE), m("b", {}), at_seconds=4.99)
    return taking(m("a", ALONE)).batch(5, halved)
