"""Names and numbers that polls, logs and history have to know alike, most of them Kafka's."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The group coordinators' log."""
TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""The transaction coordinators' log."""

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
KAFKA_STORAGE_ERROR: Final = 56
LEADER_NOT_AVAILABLE: Final = 5
"""Error of a partition without a leader. Kafka never names a leader with it."""
TOPIC_AUTHORIZATION_FAILED: Final = 29
LISTENER_NOT_FOUND: Final = 72
"""Error with which a broker shows leader -1 though there is one, on a listener that it lacks."""

TRUSTED_EPOCHS_VERSION: Final = 9
"""Leader epochs of Metadata versions below cannot be trusted (KAFKA-9212)."""
EXACT_FROM_LEVEL: Final = 12
"""metadata.version 3.6-IV0: an ISR that shrinks raises the leader epoch no more (KAFKA-15021)."""

KEY_FRAME_EVERY: Final = timedelta(seconds=300)
"""So long after a cluster's last key frame the next answer is one; others tell what differs."""

LAST_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last time that Python and Spark have."""

CONFIG_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}
"""Where a topic's configuration is set, by number (``DescribeConfigsResponse.ConfigSource``)."""
STATIC_SOURCES: Final = ("STATIC_BROKER_CONFIG", "DEFAULT_CONFIG")
"""Those that no record of the controllers' log tells: the file of the broker that answers, and what
Kafka sets.
"""
