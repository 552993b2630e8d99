"""Lag and open transactions at random, and in plain Python what waits for what."""

import random
from typing import Any

from schemas import consumption, silver
from schemas.table import Table
from tests.support.held_up_questions import TOOL, lag, transaction

Row = dict[str, Any]
IDS = ("app-0", "app-1", "it's", f"{'x' * 200}…{'0' * 32}")
_TOPIC = "clicks"


def held_up_by_chance(seed: int) -> dict[Table, list[Row]]:
    """Rows of two clusters with one id, as a cluster has under two aliases."""
    chance = random.Random(seed)
    lags, transactions = [], []
    for cluster in ("chance-a", "chance-b"):
        for group in range(4):
            begin = 0
            for _ in range(5):
                end = begin + chance.randint(1, 4) * 10
                held = [
                    (number, chance.randint(0, 9), chance.randint(1, 99))
                    for number in chance.sample(range(4), chance.randint(0, 3))
                ]
                made = lag(f"group-{group}", begin, end, *held)
                lags.append(made | {"cluster_id": "id-chance", "cluster": cluster})
                begin = end
        for number in range(12):
            begin = chance.randint(0, 15) * 10
            end = chance.choice([None, begin + chance.randint(1, 5) * 10])
            on = chance.sample(range(4), chance.randint(0, 2))
            hangs = chance.random() < 0.3
            opened_by = f"{number} on clicks" if hangs else f"{chance.choice(IDS)}{number}"
            state = chance.choice(["Ongoing", "PrepareAbort"])
            start_offset = 7 if hangs else None
            made = transaction(opened_by, begin, end, *on, start_offset=start_offset)
            made |= {"state": state, "is_hanging": hangs, "producer_id": number}
            transactions.append(made | {"cluster_id": "id-chance", "cluster": cluster})
    return {consumption.GROUP_LAG: lags, silver.OPEN_TRANSACTIONS: transactions}


def waits(rows: dict[Table, list[Row]]) -> set[tuple[Any, ...]]:
    """Cluster, group, begin, partition and records of a lag, and of each transaction that was open
    there at any time of it the id, the begin and the command; None for none.
    """
    found = set()
    for row in rows[consumption.GROUP_LAG]:
        for held in row["held_up"]:
            number = held["partition"]
            opened = [
                each
                for each in rows[silver.OPEN_TRANSACTIONS]
                if each["cluster"] == row["cluster"]
                and {"topic": _TOPIC, "partition": number} in each["partitions"]
                and each["valid_from"] <= row["valid_to"]
                and (each["valid_to"] is None or each["valid_to"] > row["valid_from"])
            ]
            of = (row["cluster"], row["group_id"], row["valid_from"], number, held["records"])
            find = f"{TOOL} find-hanging --topic clicks --partition {number}"
            found |= {
                (*of, each["opened_by"], each["valid_from"], _command(each, number))
                for each in opened
            } or {(*of, None, None, find)}
    return found


def _command(transaction_: Row, number: int) -> str | None:
    opened_by = transaction_["opened_by"]
    if transaction_["valid_to"] is not None:
        return None
    if transaction_["is_hanging"]:
        return f"{TOOL} abort --topic clicks --partition {number} --start-offset 7"
    if transaction_["state"] != "Ongoing" or not opened_by.startswith("app"):
        return None
    return f"{TOOL} forceTerminateTransaction --transactionalId '{opened_by}'"


def boundaries() -> dict[Table, list[Row]]:
    """A lag from 100 to 200, and transactions that touch it or do not."""
    spans = {"before": (50, 90), "to": (50, 100), "into": (50, 101), "at": (200, None)}
    return {
        consumption.GROUP_LAG: [lag("g", 100, 200, (0, 1, 2))],
        silver.OPEN_TRANSACTIONS: [
            transaction(name, begin, end, 0, producer_id=1) for name, (begin, end) in spans.items()
        ]
        + [transaction("after", 201, None, 0), transaction("elsewhere", 100, None, 1)],
    }
