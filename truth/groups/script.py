"""A seeded series of things done to the members of a group: decided beforehand, from the seed and
the kind of group alone.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

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
KINDS = (RANGE, ROUNDROBIN, COOPERATIVE, STATIC, CONSUMER, SHARE, STREAMS)


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
"""The further reasons that history may give for an action on a classic group, whose leader assigns
what it knows.
"""

WITHOUT_REBALANCE: Final = frozenset({"restart", "move"})


def is_static(member: str) -> bool:
    """Whether a member of this name is started with an instance id."""
    return member.startswith("static")


@dataclass(frozen=True)
class Script:
    """The steps done to one group, before and after the coordinator's broker is stopped; in the end
    nobody is left.
    """

    kind: Kind
    before: tuple[Step, ...]
    after: tuple[Step, ...]


@dataclass
class _Writer:
    kind: Kind
    chance: random.Random
    live: list[str] = field(default_factory=list)
    named: int = 0

    def join(self) -> Iterator[Step]:
        """A member more."""
        yield (Deed("join", self.new()),)

    def two_join(self) -> Iterator[Step]:
        """Two at once."""
        yield (Deed("join", self.new()), Deed("join", self.new()))

    def leave(self) -> Iterator[Step]:
        """A dynamic member closes its client."""
        yield (Deed("leave", self.gone()),)

    def swap(self) -> Iterator[Step]:
        """One leaves while another joins."""
        yield (Deed("leave", self.gone()), Deed("join", self.new()))

    def crash(self) -> Iterator[Step]:
        """A dynamic member dies."""
        yield (Deed("crash", self.gone()),)

    def pause(self) -> Iterator[Step]:
        """A dynamic member hangs until it is thrown out, and comes back."""
        member = self.chance.choice(self.dynamic())
        yield (Deed("pause", member),)
        yield (Deed("resume", member),)

    def subscribe(self) -> Iterator[Step]:
        """A member subscribes to a second topic, and gives it up."""
        member = self.chance.choice(self.live)
        yield (Deed("widen", member),)
        yield (Deed("narrow", member),)

    def grow(self) -> Iterator[Step]:
        """The topic gets partitions."""
        yield (Deed("grow"),)

    def crash_loop(self) -> Iterator[Step]:
        """A member that joins and dies, again and again."""
        yield (Deed("crash_loop", self.new()),)

    def restart(self) -> Iterator[Step]:
        """A static member goes and comes back in time."""
        name = yield from self.static()
        yield (Deed("restart", name),)

    def expire(self) -> Iterator[Step]:
        """A static member goes and does not come back."""
        name = yield from self.static()
        self.live.remove(name)
        yield (Deed("expire", name),)

    def static(self) -> Iterator[Step]:
        """One that lives already, or joins first. Returns its name."""
        found = [member for member in self.live if is_static(member)]
        if found:
            return self.chance.choice(found)
        name = self.new(static=True)
        yield (Deed("join", name),)
        return name

    def dynamic(self) -> list[str]:
        """The dynamic members that live."""
        return [member for member in self.live if not is_static(member)]

    def new(self, *, static: bool | None = None) -> str:
        """A member that lives from now on."""
        self.named += 1
        static = self.kind.only_static if static is None else static
        self.live.append(f"{'static' if static else 'member'}-{self.named}")
        return self.live[-1]

    def gone(self) -> str:
        """A dynamic member that lives no more."""
        member = self.chance.choice(self.dynamic())
        self.live.remove(member)
        return member

    def ended(self) -> Iterator[Step]:
        """All but one go at once, then the last."""
        *first, last = self.chance.sample(self.live, len(self.live))
        self.live.clear()
        for members in (first, [last]):
            yield tuple(
                Deed("expire" if is_static(member) else "leave", member) for member in members
            )

    def possible(self, scenario: Callable[[], Iterator[Step]]) -> bool:
        """Whether there are members enough for it, and not too many."""
        name = scenario.__name__
        if name in ("join", "crash_loop", "two_join", "restart"):
            return len(self.live) + (2 if name == "two_join" else 1) <= _MOST_MEMBERS
        if name in ("leave", "swap", "crash", "pause"):
            return len(self.live) > 1 and bool(self.dynamic())
        return len(self.live) > 1

    def played(self, scenarios: list[Callable[[], Iterator[Step]]]) -> Iterator[Step]:
        """All of them in random order; members join or go in between, so that each is possible."""
        for scenario in self.chance.sample(scenarios, len(scenarios)):
            while not self.possible(scenario):
                if len(self.live) < 3:
                    yield from self.join()
                else:
                    yield from self.expire() if self.kind.only_static else self.leave()
            yield from scenario()


def beginning(script: Script, before: int, after: int) -> Script:
    """The first steps of a script alone, and all leave."""
    writer = _Writer(script.kind, random.Random(0))  # noqa: S311 - not a secret
    steps = (*script.before[:before], *script.after[:after])
    for deed in (deed for step in steps for deed in step):
        if deed.action in ("join", "crash_loop"):
            writer.live.append(deed.member)
        elif deed.action in ("leave", "crash", "expire"):
            writer.live.remove(deed.member)
    return replace(script, before=steps[:before], after=(*steps[before:], *writer.ended()))


def write(seed: int, kind: Kind) -> Script:
    """The script of a kind of group: each thing that its clients can do, at least once; the same
    for the same seed.
    """
    writer = _Writer(kind, random.Random(f"{seed} {kind.name}"))  # noqa: S311 - not a secret
    before = [writer.join, writer.two_join, writer.grow]
    after = [writer.crash_loop] if not kind.only_static else [writer.restart]
    if not kind.only_static:
        before += [writer.leave, writer.crash, writer.pause]
        after += [writer.swap]
    if kind.static:
        before += [writer.restart, writer.expire]
    if kind.protocol != "streams":  # whose topics are of its topology
        before.append(writer.subscribe)
    first = next(writer.join())
    return Script(
        kind,
        before=(first, *writer.played(before)),
        # Soon after the coordinator has moved somebody joins; and there is room for those to come.
        after=(*_room(writer), *writer.played(after), *writer.ended()),
    )


def _room(writer: _Writer) -> Iterator[Step]:
    if len(writer.live) >= _MOST_MEMBERS:
        yield from writer.expire() if writer.kind.only_static else writer.leave()
    else:
        yield from writer.join()
