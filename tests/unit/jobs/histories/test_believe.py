"""A person says that answers which wait are right."""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.histories.believe import believe
from jobs.histories.polls import Polls
from jobs.rounds.history import Context
from jobs.rounds.left_out import LeftOut
from jobs.rules.memory import dumps
from jobs.rules.silver.state import State
from schemas.lake import LakeError


@pytest.mark.parametrize(
    ("left_out", "why"), [(["prod"], "its fold fails, so "), ([], "no round took them")]
)
def test_a_person_hears_where_nothing_was_believed(left_out: list[str], why: str) -> None:
    row = {"memory": dumps(State(waiting=("s/1",)))}
    context: Any = Context(*[None] * 3, {("silver", "prod"): row}, None, LeftOut())
    engine: Any = SimpleNamespace(
        lake=None,
        left_out=left_out,
        catch_up=lambda: None,
        round=lambda _: False,
        context=lambda: context,
    )
    with pytest.raises(
        LakeError, match=rf"^nothing of cluster 'prod' was believed, and 1 poll\(s\) wait: {why}"
    ):
        believe(engine, Polls(), "prod")


class Waiting:
    """An engine of a cluster whose polls wait until a round is made that believes them."""

    lake, left_out = "/lake", ()

    def __init__(self, polls: Polls, *, raises: bool = False) -> None:
        self.polls, self.raises, self.waiting = polls, raises, ("s/1", "s/2")

    def catch_up(self) -> None:
        self.polls.new.headers.of = {"prod": {"s/2": {}}}

    def round(self, _: Any) -> bool:
        assert self.polls.new.believed == "prod"
        if self.raises:
            raise OSError(28, "no space left")
        self.waiting = ()
        return False

    def context(self) -> Any:
        row = {"memory": dumps(State(waiting=self.waiting))}
        return Context(*[None] * 3, {("silver", "prod"): row}, None, LeftOut())


def test_what_waits_is_believed_and_what_bronze_has_lost_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    polls = Polls()
    engine: Any = Waiting(polls)
    believe(engine, polls, "prod")
    assert engine.waiting == ()
    assert polls.new.believed is None, "later polls are not"
    assert [record.getMessage() for record in caplog.records] == [
        "cluster prod: what waited since poll s/1 is believed",
        "cluster prod: bronze has not kept 1 of the polls that waited; they wait no more",
    ]
    with pytest.raises(LakeError, match=r"^no poll of a cluster 'prod' waits in /lake: "):
        believe(engine, polls, "prod")


def test_a_round_that_fails_believes_nobody_afterwards() -> None:
    polls = Polls()
    engine: Any = Waiting(polls, raises=True)
    with pytest.raises(OSError, match="28"):
        believe(engine, polls, "prod")
    assert polls.new.believed is None
