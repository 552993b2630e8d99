"""The script of all versions does what it should to each."""

from datetime import timedelta

import pytest

from truth.__main__ import main
from truth.compare_answers import KINDS
from truth.setups import SETUPS, Setup
from truth.versions import VERSIONS


def test_a_version_is_asked_for_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--versions", "1.0"])
    assert "2.8.2 ZooKeeper protocol 2.6" in capsys.readouterr().err
    names = [each.name for each in (*VERSIONS, *SETUPS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda each: each.name)
def test_each_step_waits_until_polls_had_to_show_the_one_before(version: Setup) -> None:
    """But for the topic that comes back at once."""
    polled = 2 * version.tolerance(2) + timedelta(seconds=2 * 2)
    steps = version.plan(0, (1, 2, 3), 60)
    assert all(step.wait > polled.total_seconds() for step in steps[1:] if step.action != "create")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("2.8.2 ZooKeeper", set()),
        ("3.9.2 ZooKeeper", {"transactions"}),
        ("3.3.2 KRaft", {"transactions", "quorum"}),
        ("4.3.1 KRaft", {"transactions", "quorum"}),
    ],
)
def test_a_version_is_held_to_what_it_can_answer(name: str, kinds: set[str]) -> None:
    (setup,) = (each for each in VERSIONS if each.name == name)
    assert {*setup.kinds} == {*KINDS} | kinds


def test_two_brokers_are_out_at_once_and_all_come_back() -> None:
    out: set[int] = set()
    most = 0
    for step in VERSIONS[0].plan(0, (1, 2, 3), 60):
        if step.action in ("stop", "kill"):
            out |= set(step.brokers)
        elif step.action == "start":
            out -= set(step.brokers)
        most = max(most, len(out))
    assert (most, out) == (2, set())
