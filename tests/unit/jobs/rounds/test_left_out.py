"""A cluster whose fold fails is left out for a while, then tried again; everybody else's history
continues.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.rounds import left_out_rows
from jobs.rounds.engine import Engine
from jobs.rounds.left_out import AGAIN_AFTER_S, AT_MOST_S, LeftOut
from jobs.rounds.left_out_rows import LeftOutRows
from jobs.rounds.plan import Step
from jobs.rounds.stage import FoldError, failing_as


def test_a_cluster_is_left_out_for_ever_longer_until_its_fold_succeeds() -> None:
    now = [0.0]
    left_out = LeftOut(clock=lambda: now[0])
    lengths = []
    for _ in range(9):
        lengths.append(left_out.put("orders"))
        assert (list(left_out), "orders" in left_out, left_out.succeed(["orders"])) == (
            ["orders"],
            True,
            [],
        )
        now[0] += lengths[-1] - 0.1
        assert left_out.take_back() == []
        now[0] += 0.1
        assert left_out.take_back() == ["orders"]
        assert "orders" not in left_out
    assert lengths == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert (lengths[0], lengths[-1]) == (AGAIN_AFTER_S, AT_MOST_S)
    assert left_out.succeed(["billing"]) == [], "nobody has looked at it"
    assert (left_out.succeed(["orders"]), left_out.succeed(["orders"])) == (["orders"], [])
    assert left_out.put("orders") == AGAIN_AFTER_S


def test_clusters_are_left_out_one_by_one() -> None:
    now = [0.0]
    left_out = LeftOut(clock=lambda: now[0])
    left_out.put("orders")
    now[0] = 30.0
    left_out.put("billing")
    assert list(left_out) == ["billing", "orders"]
    now[0] = 61.0
    assert (left_out.take_back(), list(left_out)) == (["orders"], ["billing"])
    assert left_out.succeed(["billing", "orders"]) == ["orders"]


class Rounds(Engine):
    """An engine whose rounds fail as long as they have one of `broken` in them."""

    def __init__(self, broken: set[str], clusters: set[str]) -> None:
        self.broken, self.clusters, self.made, self.planned = broken, clusters, [], 0
        self.left_out = LeftOut(clock=lambda: self.now)
        self._left_out_rows = LeftOutRows(None, None, "silver")
        self.now, self.gone_back, self.seconds, self._spark, self.lake = 0.0, 0, 0.0, None, None
        self.history = SimpleNamespace(needs={"bronze": ""}, can_make_again=False)
        self.is_begun, self.quiet = False, set[str]()
        self._rounds = SimpleNamespace(
            histories={"silver", "isr_shrink"}, is_begun=lambda _: self.is_begun
        )

    def _wait(self) -> Step:
        self.planned += 1
        return Step(self.planned, "planned", frozenset({"silver"}), "a")

    def _go_back(self) -> None:
        self.gone_back += 1

    def round(self, _: Any) -> bool:
        taken = {each for each in self.clusters - self.quiet if each not in self.left_out}
        self._planning = SimpleNamespace(result=self._wait)
        self.now += self.seconds
        for each in sorted(taken & self.broken):
            with failing_as(each):
                raise ZeroDivisionError("of a rule")
        self.made.append(taken)
        self._in_round = taken
        return False


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The clusters that the lake says are left out, after each change."""
    found: list[list[str]] = []

    def replace(spark: object, lake: object, table: object, rows: Any, where: str) -> None:
        assert where == "history = 'left out of silver'"
        assert all(row["history"] == "left out of silver" and row["why"] for row in rows)
        found.append(sorted(row["cluster"] for row in rows))

    monkeypatch.setattr(left_out_rows, "replace_rows", replace)
    monkeypatch.setattr(left_out_rows, "delete_rows", lambda *_: found.append([]))
    return found


def test_rounds_continue_without_the_clusters_that_break_them(
    stored: list[list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    maker = Rounds({"b", "c"}, {"a", "b", "c"})
    maker.catch_up()
    assert (maker.made, stored) == ([{"a"}], [["b"], ["b", "c"]])
    assert maker.planned == 2, "no plan is on its way when the next one is made"
    maker.now = AGAIN_AFTER_S
    maker.broken = {"c"}
    maker.catch_up()
    assert (maker.made[1:], stored[2:]) == ([{"a", "b"}], [["c"]])
    assert (list(maker.left_out), maker.gone_back) == (["c"], 4), (
        "after each failure, and when their time had come"
    )
    maker.broken = set()
    maker.catch_up()
    assert maker.made[2:] == [{"a", "b"}], "its time has not come"
    maker.now += 2 * AGAIN_AFTER_S
    maker.catch_up()
    assert (maker.made[3:], stored[3:], maker.gone_back) == ([{"a", "b", "c"}], [[]], 5)
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors[0].startswith(
        "cluster b is left out of the history of isr_shrink, silver for 60 s, since its fold "
        "failed: Zero"
    )
    assert len(errors) == 3
    again = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert again == [
        f"cluster(s) {each} are part of the history of isr_shrink, silver again" for each in "bc"
    ]


def test_errors_that_are_nobodys_are_raised(stored: list[list[str]]) -> None:
    maker = Rounds({"b"}, {"a", "b"})
    maker.round = lambda _: (_ for _ in ()).throw(RuntimeError("no space left"))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="no space left"):
        maker.catch_up()
    maker.round = lambda _: (_ for _ in ()).throw(FoldError("[KAFKA_METADATA_FOLD] cluster b: x"))  # type: ignore[method-assign]
    with pytest.raises(FoldError):
        maker.catch_up()
    assert stored == [["b"]], "what is left out cannot be in the way"


def test_a_round_that_is_in_a_table_is_not_given_up(stored: list[list[str]]) -> None:
    """A large cluster is folded while its tables are committed."""
    maker = Rounds({"b"}, {"a", "b"})
    maker.is_begun = True
    with pytest.raises(FoldError):
        maker.catch_up()
    assert (stored, maker.made) == ([], [])


def test_an_error_before_anything_is_planned_has_nothing_to_do_with_the_round_before(
    stored: list[list[str]],
) -> None:
    maker = Rounds(set(), {"a", "b"})
    maker.catch_up()
    maker.is_begun = True

    def fail(_: Any) -> bool:
        if "b" not in maker.left_out:
            with failing_as("b"):
                raise ZeroDivisionError
        return False

    maker.round = fail  # type: ignore[method-assign]
    maker.catch_up()
    assert stored == [["b"]]


def test_each_cluster_is_tried_once_until_all_others_have_caught_up(
    stored: list[list[str]],
) -> None:
    """Where all folds fail, rounds take longer than the first of them is left out for."""
    maker = Rounds({"a", "b", "c", "d"}, {"a", "b", "c", "d", "e"})
    maker.seconds = AGAIN_AFTER_S
    maker.catch_up()
    assert maker.made == [{"e"}]
    assert maker.left_out.tried == dict.fromkeys("abcd", 1)


def test_a_cluster_of_which_nothing_was_folded_is_not_well_yet(stored: list[list[str]]) -> None:
    maker = Rounds({"b"}, {"a", "b"})
    maker.catch_up()
    maker.now, maker.broken, maker.quiet = AGAIN_AFTER_S, set(), {"b"}
    maker.catch_up()
    assert (list(maker.left_out), stored) == ([], [["b"]])
    maker.quiet = set()
    maker.catch_up()
    assert stored == [["b"], []]
