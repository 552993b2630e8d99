"""Random values of ``__transaction_state``, and what reading them must give."""

from typing import Any

from hypothesis import strategies as st

from tests.support.group_messages import texts

LAST_MS = 253_402_300_799_999
ids = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
_times = st.sampled_from([-1, 0, 1_763_802_000_000]) | st.integers(0, LAST_MS)
_int64 = st.sampled_from([-1, 0, 1]) | st.integers(-(2**63), 2**63 - 1)
_int16 = st.sampled_from([-1, 0, 1]) | st.integers(-(2**15), 2**15 - 1)
_int32 = st.integers(-(2**31), 2**31 - 1)
_TAGGED = {
    "previous_producer_id": (_int64, -1),
    "next_producer_id": (_int64, -1),
    "next_producer_epoch": (_int16, -1),
    "client_transaction_version": (_int16, 0),
}
_RENAMED = {
    "transaction_timeout_ms": "timeout_ms",
    "transaction_status": "status",
    "transaction_start_timestamp_ms": "started_ms",
    "transaction_last_update_timestamp_ms": "updated_ms",
    "transaction_partitions": "partitions",
}


def values(version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Fields of a value, by Kafka's names in snake case."""
    topics = st.fixed_dictionaries({"topic": texts, "partition_ids": st.lists(_int32, max_size=4)})
    fields = {
        "producer_id": _int64,
        "producer_epoch": _int16,
        "transaction_timeout_ms": _int32,
        "transaction_status": st.integers(0, 7),
        "transaction_partitions": st.none() | st.lists(topics, max_size=3),
        "transaction_last_update_timestamp_ms": _times,
        "transaction_start_timestamp_ms": _times,
    }
    if version:
        fields |= {name: each | st.just(default) for name, (each, default) in _TAGGED.items()}
    return st.fixed_dictionaries(fields)


def expected(version: int, value: dict[str, Any]) -> dict[str, Any]:
    """What reading a value gives."""
    absent = {} if version else dict.fromkeys(_TAGGED, -1)
    told = {_RENAMED.get(name, name): each for name, each in value.items()} | absent
    told["partitions"] = told["partitions"] or []
    told["partition_count"] = sum(len(each["partition_ids"]) for each in told["partitions"])
    return told
