"""A step of an upgrade: what rows of a version become in the next one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Selects = tuple[str, ...]
"""SELECTs from `{rows}`, and from other tables (`{schema.name}`, by names of today) as they were,
whose rows are put together by the names of their columns. A column that
one of them lacks is null in its rows.
"""


@dataclass(frozen=True)
class Step:
    """The change of a lake from the version before to `version`.

    `rows`: the tables whose rows change, by full name of today. A table that is not named keeps its
    rows: columns that it has no more are left out, and new ones are null. `back`: of tables that an
    undo does not restore, since bronze stays, the rows as the version before had them. `functions`:
    of the SELECTs, by name, each from values to text. `says`: for people, what is not as if this
    version had recorded all of it. `begins_stream`: it cannot read the checkpoint of polls of the
    version before.
    """

    version: int
    rows: Mapping[str, Selects] = field(default_factory=dict)
    back: Mapping[str, Selects] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., str | None]] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    begins_stream: bool = False
