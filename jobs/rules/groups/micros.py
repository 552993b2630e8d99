"""Times as microseconds since the epoch, as ids of rows and ends of reads hold them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(time: datetime) -> int:
    """An aware datetime as microseconds since the epoch."""
    return (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The datetime, UTC."""
    return _EPOCH + timedelta(microseconds=micros)
