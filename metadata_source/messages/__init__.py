"""Messages that kafka-python does not have, loaded as it loads its own: from Apache Kafka's
definitions.

The JSON files are those in the jar kafka-clients 4.4.0 (``common/message``), byte for byte. They
are under the Apache License 2.0; Kafka's NOTICE is beside them.
"""

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Asks a coordinator for groups of type consumer (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Its answer."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Asks a coordinator for groups of type share (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Its answer."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Asks a coordinator for groups of type streams (KIP-1071)."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Its answer."""


class FetchSnapshotRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Asks a controller for a part of a snapshot (KIP-630)."""


class FetchSnapshotResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Its answer."""
