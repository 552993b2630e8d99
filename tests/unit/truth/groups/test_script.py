"""The scripts of groups are what they should be."""

import pytest

from truth.groups.script import (
    CONSUMER,
    COOPERATIVE,
    KINDS,
    RANGE,
    beginning,
    is_static,
    write,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_script_has_something_of_everything_and_leaves_nobody(kind, seed):
    script = write(seed, kind)
    assert script == write(seed, kind)
    deeds = [deed for step in script.before + script.after for deed in step]
    actions = {deed.action for deed in deeds}
    wanted = {"leave", "crash", "pause", "resume"} if not kind.only_static else set()
    if kind.work is None:
        wanted |= {"join", "grow"}
        wanted |= {"restart", "expire"} if kind.static else set()
        wanted |= {"crash_loop"} if not kind.only_static else set()
        wanted |= {"widen", "narrow"} if kind.protocol != "streams" else set()
        assert any(len(step) == 2 for step in script.before + script.after)
    else:
        assert {deed.action for step in script.end for deed in step} == {"crash"}
        deeds += [deed for step in script.end for deed in step]
    assert wanted <= actions
    live: set[str] = set()
    for deed in deeds:
        assert (deed.member in live) == (
            deed.action not in ("join", "crash_loop")
        ) or deed.action == "grow"
        if deed.action in ("join", "crash_loop"):
            live.add(deed.member)
        elif deed.action in ("leave", "crash", "expire"):
            assert is_static(deed.member) == (deed.action == "expire")
            live.remove(deed.member)
    assert not live


@pytest.mark.parametrize("kind", [RANGE, CONSUMER], ids=lambda kind: kind.name)
def test_the_beginning_of_a_script_leaves_nobody_too(kind):
    whole = write(281, kind)
    script = beginning(whole, 4, 1)
    assert (script.before, script.after[0]) == (whole.before[:4], whole.after[0])
    gone = [
        deed.member
        for step in script.before + script.after
        for deed in step
        if deed.action != "join"
    ]
    joined = {
        deed.member
        for step in script.before + script.after
        for deed in step
        if deed.action == "join"
    }
    assert joined <= set(gone)
    assert [deed.action for deed in script.after[-1]] == ["leave"]


def test_another_seed_is_another_script():
    assert write(1, COOPERATIVE) != write(2, COOPERATIVE)
