"""What the history of lag notes of a round (jobs/histories/lag.py)."""

from typing import Any

from jobs.histories.lag import GroupLag, Visits
from jobs.rounds.history import Context, Output
from jobs.rounds.left_out import LeftOut
from jobs.rules.groups.lag import Visit
from jobs.rules.memory import loads


def test_an_alias_that_led_to_two_clusters_in_one_round_is_behind_in_neither() -> None:
    """The alias has one row, with the last visit of both, and the last poll of all."""
    context: Any = Context(*[None] * 3, {}, None, LeftOut())
    visits = {
        ("prod", "old"): [Visit("s/1", 1, 1, 1), Visit("s/3", 3, 3, 3)],
        ("prod", "new"): [Visit("s/2", 2, 2, 2)],
    }
    noted = {
        row["cluster"]: row
        for row in GroupLag().note(context, Visits(plan=None, visits=visits), Output())
    }
    assert noted["prod"]["done_poll"] == "s/3"
    assert [*loads(dict[str, Visit], noted["prod"]["memory"])] == ["new", "old"]
