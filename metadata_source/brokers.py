"""The memory of one cluster's brokers, from poll to poll: who they are, whom to ask next, and whom
not for a while.

Versions are never remembered: brokers are up- and downgraded.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata_source.addresses import Address, format_address
from metadata_source.backoff import backoff_s
from metadata_source.errors import ErrorKind, PollError, Retry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metadata_source.images import Image
    from metadata_source.poll import Poll

_ROUNDS: Final = 3
"""How often a poll goes round the brokers."""
_BACKOFF_S: Final = 0.1
_BACKOFF_MAX_S: Final = 1.0
_JITTER: Final = 0.2
_AVOIDED_S: Final = 1.0
_HUNG_S: Final = 10.0
AVOIDED_MAX_S: Final = 60.0
"""How long nobody asks a broker after its first failure, its first timeout, and at most."""
BEHIND_S: Final = 10.0
"""Time between two checks of a broker that was behind, or that is listed no more but answers."""
_FIRST_CLIENT_THROTTLE: Final = 6
"""Before, brokers held the answer to Metadata back themselves (KIP-219)."""


@dataclass(frozen=True, slots=True)
class Avoided:
    """A broker that is left out: until when nobody tries, and how long that wait was, s."""

    until: float
    wait: float

    @classmethod
    def after(cls, before: Avoided | None, error: PollError) -> Avoided:
        """The next wait, twice as long as the one before."""
        first = _HUNG_S if error.kind == "timeout" else _AVOIDED_S
        wait = min(AVOIDED_MAX_S, max(first, 2 * before.wait if before else 0.0))
        return cls(time.monotonic() + wait, wait)


class Brokers:
    """The brokers of one cluster, as polls know them. Of one thread, but for throttling."""

    def __init__(self, bootstrap_servers: tuple[Address, ...]) -> None:
        self._bootstrap = bootstrap_servers
        self.answered: Address | None = None
        """Where the last good answer came from."""
        self.learnt: dict[Address, int] = {}
        """The brokers, with their ids, in an order of this memory's own: polls go round them."""
        self.former: dict[Address, int] = {}
        """Brokers that are listed no more, though they may still answer clients."""
        self.behind: dict[Address, Image] = {}
        """Brokers that were behind when they answered last, and with which image."""
        self.avoided: dict[Address, Avoided] = {}
        self.throttled_until: dict[Address, float] = {}

    # --- who they are ---

    def learn(self, address: Address, answer: Poll) -> None:
        """Note the brokers that a good answer lists; new ones come somewhere into the round."""
        if answer.metadata is None:
            return
        brokers = answer.metadata.brokers
        addresses = zip(brokers["host"].to_pylist(), brokers["port"].to_pylist(), strict=True)
        listed = dict(zip(addresses, brokers["broker_id"].to_pylist(), strict=True))
        self.former = {
            each: n for each, n in (self.former | self.learnt).items() if each not in listed
        }
        round_ = [each for each in self.learnt if each in listed]
        for new in (each for each in listed if each not in self.learnt):
            round_.insert(random.randint(0, len(round_)), new)  # noqa: S311
        self.learnt = {each: listed[each] for each in round_}
        if (answer.api_version or 0) >= _FIRST_CLIENT_THROTTLE:
            self.throttle(address, answer.throttle_time_ms)
        self._forget_the_gone()

    def forget(self) -> None:
        """Forget who the brokers are: their addresses may be another cluster's by now."""
        self.answered, self.learnt = None, {}

    def id_of(self, address: Address) -> int | None:
        """Return the id of the broker that was known at an address last."""
        return (self.former | self.learnt).get(address)

    def ring(self, last: Address | None) -> list[Address]:
        """Return the brokers that were learnt, in their order, `last` as the last one."""
        learnt = list(self.learnt)
        position = learnt.index(last) + 1 if last in self.learnt else 0
        return learnt[position:] + learnt[:position]

    def _forget_the_gone(self) -> None:
        """Forget addresses that nobody has any more: a memory lives as long as its process."""
        known = {*self.learnt, *self.former, *self._bootstrap}
        self.avoided = {each: avoided for each, avoided in self.avoided.items() if each in known}
        self.behind = {each: image for each, image in self.behind.items() if each in known}
        for each in [each for each in list(self.throttled_until) if each not in known]:
            self.throttled_until.pop(each, None)

    # --- whom to ask ---

    def to_ask(self, failures: dict[Address, PollError], deadline: float) -> Iterator[Address]:
        """Yield the brokers to ask, one after the other for as long as there is a point, each round
        after a pause.

        The caller says in `failures` what came of each.
        """
        for round_ in range(_ROUNDS):
            if round_ and not (self._candidates(failures) and back_off(round_, deadline)):
                return
            asked: set[Address] = set()
            while candidates := [
                address for address in self._candidates(failures) if address not in asked
            ]:
                address = candidates[0]
                asked.add(address)
                yield address
                kind = failures[address].kind
                is_final = kind.retry is Retry.REMEMBERED and address in self._bootstrap
                if is_final or kind.retry is Retry.NOBODY or time.monotonic() >= deadline:
                    return
                # Remembered addresses may be another cluster's by now; or it is
                # REBOOTSTRAP_REQUIRED (KIP-1102).
                if kind.retry is Retry.REMEMBERED or kind is ErrorKind.BROKER_ERROR:
                    self.forget()

    def _candidates(self, failures: dict[Address, PollError]) -> list[Address]:
        """Return the brokers to try: the next of the round, bootstrap servers at random, the others
        of the round.

        One alone before the bootstrap servers, so that these get their time where the addresses
        that the brokers advertise cannot be reached; none, once that is known. Brokers that are
        throttling us come last. Who failed for good is left out.
        """
        bootstrap = list(self._bootstrap)
        random.shuffle(bootstrap)
        ring = self.ring(self.answered)
        first = [address for address in ring if not self.is_avoided(address)][:1]
        addresses = [
            address
            for address in dict.fromkeys(first + bootstrap + ring)
            if address not in failures or failures[address].retry is Retry.AGAIN
        ]
        return sorted(addresses, key=lambda address: self.throttled_s(address) > 0)

    # --- whom not to ask ---

    def is_avoided(self, address: Address) -> bool:
        """Whether a broker is left out now."""
        avoided = self.avoided.get(address)
        return avoided is not None and avoided.until > time.monotonic()

    def avoid(self, address: Address, seconds: float) -> None:
        """Leave a broker out for so long, though it answers."""
        self.avoided[address] = Avoided(time.monotonic() + seconds, 0.0)

    def failed(self, address: Address, error: PollError) -> None:
        """Leave a broker out for a while, for longer with each failure."""
        self.avoided[address] = Avoided.after(self.avoided.get(address), error)

    def throttle(self, address: Address, throttle_time_ms: int | None) -> None:
        """Note for how long a broker wants to be left alone."""
        if throttle_time_ms:
            self.throttled_until[address] = time.monotonic() + throttle_time_ms / 1000

    def throttled_s(self, address: Address) -> float:
        """Return for how long a broker wants to be left alone; not above 0 where it does not."""
        return self.throttled_until.get(address, 0.0) - time.monotonic()

    def obey_throttle(self, address: Address, deadline: float) -> None:
        """Wait until a broker may be asked. Raises PollError where that is after the deadline."""
        wait = self.throttled_s(address)
        if wait > deadline - time.monotonic():
            raise PollError(
                "timeout",
                f"{format_address(address)}: throttled by the broker for another {wait:.1f} s",
            )
        if wait > 0:
            time.sleep(wait)


def back_off(round_: int, deadline: float) -> bool:
    """Wait before another round; False when the poll's time would be over by then."""
    jitter = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
    wait = backoff_s(_BACKOFF_S, round_, _BACKOFF_MAX_S) * jitter
    if time.monotonic() + wait >= deadline:
        return False
    time.sleep(wait)
    return True
