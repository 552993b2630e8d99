"""A cluster whose fold fails is left out for a while, then tried again; everybody else's history continues."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.common import maker as makers
from jobs.common.aside import AGAIN_AFTER_S, AT_MOST_S, Aside
from jobs.common.maker import Maker
from jobs.common.stage import FoldError, broken_cluster, naming


def test_a_cluster_is_left_out_for_ever_longer_until_its_fold_succeeds() -> None:
    now = [0.0]
    aside = Aside(clock=lambda: now[0])
    lengths = []
    for _ in range(9):
        lengths.append(aside.put("orders"))
        assert (list(aside), "orders" in aside, aside.succeed()) == (["orders"], True, [])
        now[0] += lengths[-1] - 0.1
        assert aside.take_back() == []
        now[0] += 0.1
        assert aside.take_back() == ["orders"]
        assert "orders" not in aside
    assert lengths == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert (lengths[0], lengths[-1]) == (AGAIN_AFTER_S, AT_MOST_S)
    assert (aside.succeed(), aside.succeed()) == (["orders"], [])
    assert aside.put("orders") == AGAIN_AFTER_S


def test_clusters_are_left_out_one_by_one() -> None:
    now = [0.0]
    aside = Aside(clock=lambda: now[0])
    aside.put("orders")
    now[0] = 30.0
    aside.put("billing")
    assert list(aside) == ["billing", "orders"]
    now[0] = 61.0
    assert (aside.take_back(), list(aside), aside.succeed()) == (["orders"], ["billing"], ["orders"])


def test_an_error_of_a_fold_names_its_cluster_wherever_its_text_ends_up() -> None:
    with pytest.raises(FoldError) as raised, naming("eu-west.1_a"):
        {}["leader\nepoch"]
    text = f"[STREAM_FAILED] at org.apache.spark\njobs.common.stage.FoldError: {raised.value}\n  at java.base\n"
    found = broken_cluster(RuntimeError(text))
    assert found is not None
    cluster, why = found
    assert cluster == "eu-west.1_a"
    assert why.startswith(r"KeyError: 'leader\nepoch' (test_an_error_of_a_fold_names_its_cluster")
    assert broken_cluster(RuntimeError("Python worker exited")) is None


def test_what_an_error_says_is_cut() -> None:
    with pytest.raises(FoldError) as raised, naming("orders"):
        raise ValueError("x" * 10_000)
    assert len(str(raised.value)) < 700


class Rounds(Maker):
    """A maker whose rounds fail as long as they have one of `broken` in them."""

    by = "topic"
    _finish = None

    def __init__(self, broken: set[str], clusters: set[str]) -> None:
        self.broken, self.clusters, self.made, self.planned = broken, clusters, [], 0
        self.aside, self._aside_rows, self._aside_of = Aside(clock=lambda: self.now), {}, "aside of silver"
        self.now, self.gone_back, self._spark, self._lake = 0.0, 0, None, None
        self._rounds = SimpleNamespace(histories={"silver", "isr_shrink"})
        self._planning = SimpleNamespace(result=self._wait)

    def _wait(self) -> None:
        self.planned += 1

    def _go_back(self) -> None:
        self.gone_back += 1

    def round(self, _: Any) -> bool:
        taken = {each for each in self.clusters if each not in self.aside}
        for each in sorted(taken & self.broken):
            with naming(each):
                raise ZeroDivisionError("of a rule")
        self.made.append(taken)
        return False


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The clusters that the lake says are left out, after each change."""
    found: list[list[str]] = []

    def replace(spark: object, lake: object, table: object, rows: Any, where: str) -> None:
        assert where == "history = 'aside of silver'"
        assert all(row["history"] == "aside of silver" and json.loads(row["memory"])["says"] for row in rows)
        found.append(sorted(row["cluster"] for row in rows))

    monkeypatch.setattr(makers, "replace_rows", replace)
    monkeypatch.setattr(makers, "delete_rows", lambda *_: found.append([]))
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
    assert (list(maker.aside), maker.gone_back) == (["c"], 4), "after each failure, and when their time had come"
    maker.broken = set()
    maker.catch_up()
    assert maker.made[2:] == [{"a", "b"}], "its time has not come"
    maker.now += 2 * AGAIN_AFTER_S
    maker.catch_up()
    assert (maker.made[3:], stored[3:], maker.gone_back) == ([{"a", "b", "c"}], [[]], 5)
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors[0].startswith(
        "cluster b is left out of the history of isr_shrink, silver for 60 s, since its fold failed: Zero"
    )
    assert len(errors) == 3
    again = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert again == [f"cluster(s) {each} are part of the history of isr_shrink, silver again" for each in "bc"]


def test_errors_that_are_nobodys_are_raised(stored: list[list[str]]) -> None:
    maker = Rounds({"b"}, {"a", "b"})
    maker.round = lambda _: (_ for _ in ()).throw(RuntimeError("no space left"))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="no space left"):
        maker.catch_up()
    maker.round = lambda _: (_ for _ in ()).throw(FoldError("[KAFKA_METADATA_FOLD] cluster b: x"))  # type: ignore[method-assign]
    with pytest.raises(FoldError):
        maker.catch_up()
    assert stored == [["b"]], "what is left out cannot be in the way"
