"""When a group was there: from its creation, or the first that is known of it, until it was deleted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Life:
    """One time that the group was there; `ended` is None while it is."""

    began: datetime
    ended: datetime | None = None
    group_type: str | None = None


def lived(life: Life | None, events: Iterable[Row]) -> tuple[list[Life], Life | None]:
    """The lives that ended, and the one that has not, after rows of gold.group_events_told of one source."""
    ended: list[Life] = []
    for event in sorted(events, key=lambda row: (row["began_before"], row["offset"] or 0)):
        if event["event"] == "created" and life is None:
            life = Life(event["began_before"])
        if event["event"] in ("created", "converted", "deleted"):
            life = life and replace(life, group_type=event["group_type"] or life.group_type)
        if event["event"] == "deleted" and life is not None:
            ended.append(replace(life, ended=event["began_before"]))
            life = None
    return ended, life


def there_again(
    life: Life | None, group_type: str | None, records: Sequence[Row], deleted_at: int | None
) -> Life | None:
    """The life of a group that is there: where no record said that it was made, its first one did.

    `records`: the new ones. `deleted_at`: offset of its last deletion among them.
    """
    if life is not None:
        return replace(life, group_type=group_type or life.group_type)
    if group_type is None:
        return None
    own = [row for row in records if row["record"] == "record"]
    after = [row for row in own if deleted_at is None or row["offset"] > deleted_at]
    return Life((after or own)[0]["timestamp"], group_type=group_type)
