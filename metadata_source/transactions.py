"""Transactions that are open for long: every coordinator lists those that are open, and describes
them; and transactions that hang, which no coordinator knows (`hanging`).

1. ListTransactions of every broker (`coordinators`): ids in a state in which a transaction is open.
   From Kafka 3.8 on brokers leave out those of the last ten seconds.
2. DescribeTransactions of these, at the broker that listed them. Kept are those that are ongoing
   for longer than their time-out or five minutes, and those that are prepared for commit or abort
   and began thirty seconds ago: by the clocks of their coordinator and of this machine.

A broker lists what the user may describe, and does not say that it leaves something out. So if
there is nothing, it is asked whether it would tell: by an id that nobody has, and if that is
refused, by all ids in any state.

Both are bounded, by count and by the time that they share evenly. Those that the answer before told
are described first (`open_before`), all others by turns. What may be open still, though the answer
does not list it, is an entry with the reason:

- with an id: it was listed, and not described, or left out; an answer before may have had it.
- without an id, with partitions of `__transaction_state`: all ids that these keep, of
  `partition_count` partitions; their coordinator did not answer.
- without both: ids from a producer id on; they were listed and left out, and are too many to be
  named.

Of those that no answer before can have had only the outcome says how many were left out.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from metadata_source import questions
from metadata_source.coordinators import Asked, settled, settled_accounts
from metadata_source.errors import PollError
from metadata_source.kafka_constants import LAST_MS, TRANSACTIONS_TOPIC
from metadata_source.long_transactions import COMPLETES_WITHIN, LONG
from metadata_source.many_brokers import Time, undone
from metadata_source.outcomes import failed, outcome_of
from metadata_source.questions import DENIED, check
from metadata_source.transactional_ids import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from metadata_source.coordinators import Account, Settled
    from metadata_source.many_brokers import Broker, Visits
    from metadata_source.open_before import OpenBefore

ONGOING: Final = "Ongoing"
OPEN: Final = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""The states in which a transaction is open for who reads committed records."""
MOST: Final = 1_000
"""Transactions that a coordinator describes in one answer, and that are kept of one, at most."""
PARTITIONS_KEPT: Final = 200
"""Of a transaction."""
NO_ID: Final = "kafka-metadata-history-probe"
"""A transactional id that nobody has."""
NOT_FOUND: Final = 105
"""TRANSACTIONAL_ID_NOT_FOUND."""
_LISTED_AFTER_MS: Final = 10_000
"""Less than any time-out that is of use: coordinators look for those that are over each 10 s."""
_IDS_A_REQUEST: Final = 200
_BYTES_A_REQUEST: Final = 1_000_000


class TransactionPartition(TypedDict):
    """A partition of a transaction."""

    topic: str
    partition: int


class Transaction(TypedDict, total=False):
    """An entry of bronze, by the columns of `columns.polls.TRANSACTION`. `error`: it was listed,
    and could not be described. Without an id: of all that may be open (above), and of those that
    hang.
    """

    is_hanging: bool
    transactional_id: str
    state: str
    error: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at: datetime | None
    partition_count: int
    partitions: list[TransactionPartition]
    start_offset: int
    coordinator_epoch: int
    last_written_at: datetime | None


class Listing(NamedTuple):
    """A transactional id as its coordinator listed it."""

    transactional_id: str
    producer_id: int
    state: str


class Described(NamedTuple):
    """Transactions that are open for long, and in one line what could not be told; None if all
    was.
    """

    transactions: list[Transaction]
    missing: str | None


class _Listed(NamedTuple):
    """A coordinator's answer. `left_out`: transactions that it listed and was not asked about."""

    listings: list[Listing]
    transactions: list[Transaction]
    left_out: Sequence[Listing] = ()


def described(visits: Visits, brokers: Sequence[Broker], before: OpenBefore[int]) -> Described:
    """Return the transactions that are open for long, by id, and what may be open still. Raises
    PollError if nothing is known. It takes half of the time that is left, and half of the rest.
    """
    given = Time.share(visits, 2)

    def describe(broker: Broker, listed: _Listed) -> _Listed:
        listings = before.in_order(listed.listings, attrgetter("producer_id"), broker.broker_id)
        told: list[Transaction] = []
        asked = 0
        for batch in _batches(listings[:MOST]):
            if given.is_over:
                break
            told += _described(visits, broker, batch, given)
            asked += len(batch)
        told += [
            _left_out(_listed(broker, each))
            for each in listings[asked:]
            if each.producer_id in before.open
        ]
        return _Listed(listed.listings, told, listings[asked:])

    found = settled(visits, brokers, _asked(visits, given, describe), given)
    for account in found.accounts:
        left_out = [each.producer_id for each in account.answer.left_out]
        before.leave_out(left_out, account.broker.broker_id)
    if not any(account.answer.listings for account in found.accounts):
        brokers = [account.broker for account in found.accounts]
        check_allowed(visits, brokers, Time.share(visits, 2))
    return _told(found, before)


def _told(found: Settled[_Listed], before: OpenBefore[int]) -> Described:
    known: dict[str, Transaction] = {}
    for account in found.accounts:
        for each in account.answer.transactions:
            # Two coordinators list an id that moves meanwhile: one of them describes it.
            if "error" in known.get(each["transactional_id"], {"error": None}):
                known[each["transactional_id"]] = each
    now = datetime.now(UTC)
    long = sorted(
        (each for each in known.values() if "error" in each or is_long(each, now)),
        key=lambda each: (
            each["producer_id"] not in before.open,
            each.get("started_at") or now,
            each["transactional_id"],
        ),
    )
    told = sorted(long[:MOST], key=lambda each: each["transactional_id"])
    listed = (
        _listed(account.broker, each)
        for account in found.accounts
        for each in account.answer.left_out
    )
    left_out = {each["producer_id"]: each for each in long[MOST:]} | {
        each["producer_id"]: each for each in listed if each["transactional_id"] not in known
    }
    errors = [each for each in known.values() if "error" in each]
    missing = [
        None if found.error is None else found.error.problem,
        undone(
            (each["error"] for each in errors),
            len(known),
            "transactions could not be described",
        ),
    ]
    if left_out:
        missing.append(f"{len(left_out)} more open transactions were left out")
    hidden = sorted(before.may_be_known(frozenset(left_out)))
    told += [_left_out(left_out[each]) for each in hidden[:MOST]]
    if others := hidden[MOST:]:
        reason = failed(f"{len(others)} more were left out")
        told.append({"is_hanging": False, "error": reason, "producer_id": others[0]})
    if found.error is not None:
        told.append(_of_partitions(found, outcome_of(found.error)))
    before.add(
        frozenset(
            each["producer_id"]
            for each in long[:MOST]
            if "error" not in each or each["producer_id"] in before.open
        ),
        frozenset(left_out).union(each["producer_id"] for each in errors),
        is_whole=found.error is None,
    )
    return Described(told, "; ".join(filter(None, missing)) or None)


def _left_out(listed: Transaction) -> Transaction:
    return {
        "is_hanging": False,
        "transactional_id": listed["transactional_id"],
        "state": listed["state"],
        "coordinator": listed["coordinator"],
        "producer_id": listed["producer_id"],
        "error": failed("it was left out"),
    }


def _of_partitions(found: Settled[_Listed], reason: str) -> Transaction:
    return {
        "is_hanging": False,
        "error": reason,
        "partition_count": found.partitions,
        "partitions": [
            {"topic": TRANSACTIONS_TOPIC, "partition": each} for each in sorted(found.unled)
        ],
    }


def is_long(transaction: Transaction, now: datetime) -> bool:
    """Whether a transaction that was described is open for long."""
    started_at = transaction.get("started_at")
    if transaction["state"] not in OPEN or started_at is None:
        return False
    bound = COMPLETES_WITHIN
    if transaction["state"] == ONGOING:
        bound = min(LONG, timedelta(milliseconds=max(0, transaction["timeout_ms"])))
    return now - started_at > bound


def listed_by_all(
    visits: Visits, brokers: Iterable[Broker], given: Time, producer_ids: Sequence[int]
) -> list[Account[_Listed]]:
    """Return what each coordinator lists of these producer ids. Raises PollError if some may be
    missing.
    """
    return settled_accounts(
        visits, brokers, _asked(visits, given, producer_ids=producer_ids), given
    )


def _asked(
    visits: Visits,
    given: Time,
    describe: Callable[[Broker, _Listed], _Listed] = lambda _, listed: listed,
    producer_ids: Sequence[int] = (),
) -> Asked[_Listed]:
    """Of these producer ids all, without any those that are open."""
    question = (
        questions.transactions(producer_ids=producer_ids)
        if producer_ids
        else questions.transactions(states=OPEN, longer_ms=_LISTED_AFTER_MS)
    )

    def listed(broker: Broker) -> _Listed:
        answer = visits.ask(broker.address, question, given.until)
        check(answer.error_code)
        return _Listed(
            [
                Listing(each.transactional_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            ],
            [],
        )

    return Asked(TRANSACTIONS_TOPIC, "transactions", listed, describe)


def check_allowed(visits: Visits, brokers: Sequence[Broker], given: Time) -> None:
    """Raise PollError if the user may describe no transactional id. Of one that may describe some,
    brokers list these. `brokers`: those that have answered.
    """
    if may_describe_all(visits, brokers, given):
        return
    everything = questions.transactions()
    for broker in brokers:
        given.check()
        if visits.ask(broker.address, everything, given.until).transaction_states:
            return
    raise PollError("authorization", "no transactional id may be described")


def may_describe_all(visits: Visits, brokers: Sequence[Broker], given: Time) -> bool:
    """Return whether the user may describe an id that nobody has, as one of these brokers says.
    Raises PollError.
    """
    if not brokers:
        return True
    given.check()
    question = questions.described_transactions([NO_ID])
    answer = visits.ask(brokers[0].address, question, given.until)
    # Permissions come first: whoever coordinates it.
    return questions.the_one(answer.transaction_states, "transactional id").error_code not in DENIED


def described_at(
    visits: Visits, broker: Broker, listings: Sequence[Listing], given: Time
) -> Iterator[Transaction]:
    """Yield what a coordinator says of these ids, at least an error; nothing of those that are gone
    by now.
    """
    for batch in _batches(listings):
        yield from _described(visits, broker, batch, given)


def _batches(listings: Sequence[Listing]) -> Iterator[list[Listing]]:
    batch: list[Listing] = []
    size = 0
    for each in listings:
        of_each = len(each.transactional_id.encode())
        if batch and (len(batch) == _IDS_A_REQUEST or size + of_each > _BYTES_A_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += of_each
    if batch:
        yield batch


def _described(
    visits: Visits, broker: Broker, listings: Sequence[Listing], given: Time
) -> Iterator[Transaction]:
    answered: dict[str, Any] = {}
    try:
        given.check()
        question = questions.described_transactions([each.transactional_id for each in listings])
        answer = visits.ask(broker.address, question, given.until)
        answered = {each.transactional_id: each for each in answer.transaction_states}
        problem = PollError("broker_error", "the coordinator left it out of its answer")
    except PollError as error:
        if error.kind == "too_large" and len(listings) > 1:
            middle = len(listings) // 2
            yield from _described(visits, broker, listings[:middle], given)
            yield from _described(visits, broker, listings[middle:], given)
            return
        problem = error
    unknown = outcome_of(
        PollError(problem.kind, f"broker {broker}: {given.problem(broker, problem)}")
    )
    for listed in listings:
        told = answered.get(listed.transactional_id)
        if told is None:
            yield {**_listed(broker, listed), "error": unknown}
        elif told.error_code != NOT_FOUND:
            yield _of_answer(broker, listed, told)


def _listed(broker: Broker, listed: Listing) -> Transaction:
    return {
        "is_hanging": False,
        "transactional_id": shortened(listed.transactional_id) or "",
        "state": listed.state,
        "coordinator": broker.broker_id,
        "producer_id": listed.producer_id,
    }


def _of_answer(broker: Broker, listed: Listing, told: Any) -> Transaction:
    try:
        check(told.error_code)
    except PollError as error:
        return {**_listed(broker, listed), "error": outcome_of(error)}
    partitions = sorted({(each.topic, n) for each in told.topics for n in each.partitions})
    return {
        **_listed(broker, listed),
        "state": told.transaction_state,
        "producer_id": told.producer_id,
        "producer_epoch": told.producer_epoch,
        "timeout_ms": told.transaction_timeout_ms,
        "started_at": time_of(told.transaction_start_time_ms),
        "partition_count": len(partitions),
        "partitions": [
            {"topic": topic, "partition": number} for topic, number in partitions[:PARTITIONS_KEPT]
        ],
    }


def time_of(timestamp_ms: int) -> datetime | None:
    """Return a time of a broker's; None for none, or one that no column holds."""
    if not 0 <= timestamp_ms <= LAST_MS:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def open_epochs(transactions: Iterable[Transaction]) -> Mapping[int, list[tuple[int, str]]]:
    """Return producer id -> epoch and state of the transactions that are open."""
    found: dict[int, list[tuple[int, str]]] = {}
    for each in transactions:
        if each["state"] in OPEN:
            found.setdefault(each["producer_id"], []).append(
                (each["producer_epoch"], each["state"])
            )
    return found
