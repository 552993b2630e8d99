"""A seeded series of things done to the members of a group: decided beforehand, from the seed and
the kind of group alone.
"""

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from local_cluster.members import Work

PARTITIONS: Final = 6
GROWS_TO: Final = 8
CRASHES: Final = 3
"""How often a crash-looping member dies; the next time it stays."""
_MOST_MEMBERS: Final = 4


@dataclass(frozen=True)
class Kind:
    """A kind of group and of client."""

    name: str
    protocol: str
    group_type: str
    assignor: str | None = None
    static: bool = True
    """Whether its clients can be static members."""
    only_static: bool = False
    java: bool = False
    """Kafka's own clients, which tell less: no member ids, and share consumers nothing at all."""
    work: Work | None = None
    """Its members do records, and write that down."""

    @property
    def eager(self) -> bool:
        """Whether all give up everything in each rebalance."""
        return self.assignor in ("range", "roundrobin")


RANGE = Kind("range", "classic", "classic", "range")
ROUNDROBIN = Kind("roundrobin", "classic", "classic", "roundrobin")
COOPERATIVE = Kind("cooperative", "classic", "classic", "cooperative-sticky")
STATIC = Kind("static", "classic", "classic", "cooperative-sticky", only_static=True)
CONSUMER = Kind("consumer", "consumer", "consumer")
SHARE = Kind("share", "share", "share", static=False, java=True)
STREAMS = Kind("streams", "streams", "streams", static=False, java=True)
CARELESS = replace(RANGE, name="careless", work=Work(commits_revoked=False))
WORKING = (
    replace(RANGE, name="range-workers", work=Work()),
    CARELESS,
    replace(COOPERATIVE, name="cooperative-workers", work=Work()),
    replace(CONSUMER, name="consumer-workers", work=Work()),
    replace(RANGE, name="transactions", work=Work(in_transactions=True)),
)
KINDS = (RANGE, ROUNDROBIN, COOPERATIVE, STATIC, CONSUMER, SHARE, STREAMS, *WORKING)


@dataclass(frozen=True)
class Deed:
    """One thing done to one member, or to the group's topic."""

    action: str
    """join | leave | crash | restart | expire | pause | resume | widen | narrow | grow | crash_loop
    | move (of the coordinator).
    """
    member: str = ""
    """Its client id."""

    def __str__(self) -> str:
        return f"{self.action} {self.member}".strip()


Step = tuple[Deed, ...]
"""Deeds done at once; the group is left alone until it is quiet again."""

REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "join": ("member_joined",),
    "leave": ("member_left",),
    "crash": ("member_left",),
    "restart": (),
    "expire": ("static_member_left",),
    "pause": ("member_left",),
    "resume": ("member_joined",),
    "widen": ("subscription_changed",),
    "narrow": ("subscription_changed",),
    "grow": ("partitions_changed",),
    "crash_loop": ("member_joined", "member_left"),
    "move": (),
}
"""The reasons that history must give for an action, and no others."""

CLASSIC_REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    # Each member joins again when it notices, which may take a generation more; and only then is
    # the new topic shared out.
    "grow": ("same_members",),
    "widen": ("partitions_changed", "same_members"),
}
"""More reasons that history may give for an action on a classic group, assigned by its leader."""

WITHOUT_REBALANCE: Final = frozenset({"restart", "move"})


def is_static(member: str) -> bool:
    """Whether a member of this name is started with an instance id."""
    return member.startswith("static")


@dataclass(frozen=True)
class Script:
    """The steps done to one group, before and after its coordinator's broker stops."""

    kind: Kind
    before: tuple[Step, ...]
    after: tuple[Step, ...]
    end: tuple[Step, ...] = ()
    """Once nobody produces any more."""


@dataclass
class _Cast:
    """The members that live, as far as the script knows."""

    kind: Kind
    chance: random.Random
    live: list[str] = field(default_factory=list)
    named: int = 0

    def dynamic(self) -> list[str]:
        """Return the dynamic members that live."""
        return [member for member in self.live if not is_static(member)]

    def new(self, *, static: bool | None = None) -> str:
        """Return a member that lives from now on."""
        self.named += 1
        static = self.kind.only_static if static is None else static
        self.live.append(f"{'static' if static else 'member'}-{self.named}")
        return self.live[-1]

    def gone(self) -> str:
        """Return a dynamic member that lives no more."""
        member = self.chance.choice(self.dynamic())
        self.live.remove(member)
        return member


_Scenario = Callable[[_Cast], Iterator[Step]]


def _join(cast: _Cast) -> Iterator[Step]:
    """A member more."""
    yield (Deed("join", cast.new()),)


def _two_join(cast: _Cast) -> Iterator[Step]:
    """Two at once."""
    yield (Deed("join", cast.new()), Deed("join", cast.new()))


def _leave(cast: _Cast) -> Iterator[Step]:
    """A dynamic member closes its client."""
    yield (Deed("leave", cast.gone()),)


def _swap(cast: _Cast) -> Iterator[Step]:
    """One leaves while another joins."""
    yield (Deed("leave", cast.gone()), Deed("join", cast.new()))


def _crash(cast: _Cast) -> Iterator[Step]:
    """A dynamic member dies."""
    yield (Deed("crash", cast.gone()),)


def _pause(cast: _Cast) -> Iterator[Step]:
    """A dynamic member hangs until it is thrown out, and comes back."""
    member = cast.chance.choice(cast.dynamic())
    yield (Deed("pause", member),)
    yield (Deed("resume", member),)


def _subscribe(cast: _Cast) -> Iterator[Step]:
    """A member subscribes to a second topic, and gives it up."""
    member = cast.chance.choice(cast.live)
    yield (Deed("widen", member),)
    yield (Deed("narrow", member),)


def _grow(_cast: _Cast) -> Iterator[Step]:
    """The topic gets partitions."""
    yield (Deed("grow"),)


def _crash_loop(cast: _Cast) -> Iterator[Step]:
    """A member that joins and dies, again and again."""
    yield (Deed("crash_loop", cast.new()),)


def _restart(cast: _Cast) -> Iterator[Step]:
    """A static member goes and comes back in time."""
    name = yield from _static(cast)
    yield (Deed("restart", name),)


def _expire(cast: _Cast) -> Iterator[Step]:
    """A static member goes and does not come back."""
    name = yield from _static(cast)
    cast.live.remove(name)
    yield (Deed("expire", name),)


def _static(cast: _Cast) -> Generator[Step, None, str]:
    """Return a static member, which lives already, or joins first."""
    found = [member for member in cast.live if is_static(member)]
    if found:
        return cast.chance.choice(found)
    name = cast.new(static=True)
    yield (Deed("join", name),)
    return name


def _one_goes(cast: _Cast) -> Iterator[Step]:
    return _expire(cast) if cast.kind.only_static else _leave(cast)


def _all_go(cast: _Cast) -> Iterator[Step]:
    """All but one go at once, then the last."""
    *first, last = cast.chance.sample(cast.live, len(cast.live))
    cast.live.clear()
    for members in (first, [last]):
        yield tuple(Deed("expire" if is_static(member) else "leave", member) for member in members)


def _is_possible(scenario: _Scenario, cast: _Cast) -> bool:
    """Return whether there are members enough for it, and not too many."""
    if scenario in (_join, _crash_loop, _two_join, _restart):
        return len(cast.live) + (2 if scenario is _two_join else 1) <= _MOST_MEMBERS
    if scenario in (_leave, _swap, _crash, _pause):
        return len(cast.live) > 1 and bool(cast.dynamic())
    return len(cast.live) > 1


def _all_of(scenarios: list[_Scenario], cast: _Cast) -> Iterator[Step]:
    """All in random order; members join or go in between, so that each is possible."""
    for scenario in cast.chance.sample(scenarios, len(scenarios)):
        while not _is_possible(scenario, cast):
            yield from _join(cast) if len(cast.live) < 3 else _one_goes(cast)
        yield from scenario(cast)


def beginning(script: Script, before: int, after: int) -> Script:
    """The first steps of a script alone, and all leave."""
    cast = _Cast(script.kind, random.Random(0))  # noqa: S311 - not a secret
    steps = (*script.before[:before], *script.after[:after])
    for deed in (deed for step in steps for deed in step):
        if deed.action in ("join", "crash_loop"):
            cast.live.append(deed.member)
        elif deed.action in ("leave", "crash", "expire"):
            cast.live.remove(deed.member)
    return replace(script, before=steps[:before], after=(*steps[before:], *_all_go(cast)))


def write(seed: int, kind: Kind) -> Script:
    """Return the script of a kind of group: all that its clients can do, the same for one seed; of
    members that work, what costs something.
    """
    cast = _Cast(kind, random.Random(f"{seed} {kind.name}"))  # noqa: S311 - not a secret
    if kind.work is not None:
        return Script(
            kind,
            before=(*_join(cast), *_all_of([_join, _leave, _crash, _pause], cast)),
            after=(*_room(cast),),
            end=(tuple(Deed("crash", member) for member in cast.live),),
        )
    before: list[_Scenario] = [_join, _two_join, _grow]
    after: list[_Scenario] = [_crash_loop] if not kind.only_static else [_restart]
    if not kind.only_static:
        before += [_leave, _crash, _pause]
        after += [_swap]
    if kind.static:
        before += [_restart, _expire]
    if kind.protocol != "streams":  # whose topics are of its topology
        before.append(_subscribe)
    first = next(_join(cast))
    return Script(
        kind,
        before=(first, *_all_of(before, cast)),
        # Soon after the coordinator has moved somebody joins; and there is room for those to come.
        after=(*_room(cast), *_all_of(after, cast), *_all_go(cast)),
    )


def _room(cast: _Cast) -> Iterator[Step]:
    return _one_goes(cast) if len(cast.live) >= _MOST_MEMBERS else _join(cast)
