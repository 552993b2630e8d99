"""The files of a stream's checkpoint that go, by what its table has. What Spark does then:
tests/spark.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.run import checkpoints
from jobs.run.checkpoints import check_checkpoint, files_to_remove, is_whole
from schemas import bronze
from schemas.lake import Lake, LakeError

PLAN = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"n": 4}'
DONE = 'v1\n{"nextBatchWatermarkMs":0}'


@pytest.mark.parametrize(
    ("last", "planned", "done", "lost", "gone"),
    [
        # as a kill leaves it
        (-1, [], [], [], []),
        (-1, [0], [], [], []),
        (13, [12, 13], [12, 13], [], []),
        (13, [12, 13, 14], [12, 13], [], []),
        (13, [12, 13], [12], [], []),
        # the table has lost batches: they are made again, or planned again
        (13, [12, 13, 14], [12, 13, 14], [], ["commits/14"]),
        (12, [12, 13, 14, 15], [12, 13, 14], [],
         ["offsets/14", "offsets/15", "commits/14", "commits/13"]),
        # a plan has lost bytes that nothing came of
        (-1, [0], [], ["offsets/0"], ["offsets/0"]),
        (13, [12, 13, 14], [12, 13], ["offsets/14"], ["offsets/14"]),
        (13, [12, 13, 14], [12, 13, 14], ["offsets/14", "commits/14"],
         ["offsets/14", "commits/14"]),
        # a note has: the batch is passed over
        (13, [12, 13], [12, 13], ["commits/13"], ["commits/13"]),
        (13, [12, 13, 14], [12, 13], ["commits/12", "commits/13"], ["commits/13", "commits/12"]),
        (0, [0], [0], ["commits/0"], ["commits/0"]),
        # nobody knows where the last batch ended
        (13, [12, 13], [12], ["offsets/13"], None),
        (13, [12, 13], [12, 13], ["offsets/13"], None),
        (13, [12, 13, 14], [12, 13], ["offsets/13"], None),
        (3, [12, 13], [12, 13], [], None),
        # files of long ago are nobody's concern
        (13, [2, 12, 13], [2, 12, 13], ["offsets/2", "commits/2", "offsets/12", "commits/12"], []),
    ],
)  # fmt: skip
def test_what_the_table_lacks_is_made_once_more_and_nothing_is_passed_over(
    last: int, planned: list[int], done: list[int], lost: list[str], gone: list[str] | None
) -> None:
    assert files_to_remove(last, planned, done, lambda name: name not in lost) == gone


@pytest.mark.parametrize("text", [PLAN, DONE, "v1\n{}\n-\n{}", "v2\n{}"])
def test_files_as_spark_writes_them_are_whole(text: str) -> None:
    assert is_whole(text)


@pytest.mark.parametrize(
    "text", [None, "", "\0" * 40, "v1", "v1\n", PLAN[:-3], PLAN[:20], "{}", DONE[:-1]]
)
def test_files_as_a_power_cut_leaves_them_are_not(text: str | None) -> None:
    assert not is_whole(text)


@pytest.mark.parametrize(("later", "is_refused"), [({4, 5}, False), ({4}, True)])
def test_a_run_that_has_the_checkpoint_may_commit_while_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, later: set[int], *, is_refused: bool
) -> None:
    """It plans a batch after the plans were listed, and the table has that one."""
    listed = {"offsets": [{4}, later], "commits": [{4}]}
    files = SimpleNamespace(
        has=lambda _: True,
        text=lambda name: '{"id": "q"}' if name == "metadata" else PLAN,
        batches=lambda folder: listed[folder].pop(0),
        delete=lambda name: pytest.fail(f"{name} is another run's"),
    )
    monkeypatch.setattr(checkpoints.Checkpoint, "of", lambda *_: files)
    commits = [SimpleNamespace(version=5 - n, query="q", batch=5 - n) for n in range(6)]
    monkeypatch.setattr(checkpoints, "_newest_commits", lambda *_: commits)
    of: Any = None
    if is_refused:
        with pytest.raises(
            LakeError, match=r"is an old copy: it ends at batch 4, and .* has batch 5"
        ):
            check_checkpoint(of, Lake(root="/lake"), bronze.METADATA_POLLS, "c")
    else:
        check_checkpoint(of, Lake(root="/lake"), bronze.METADATA_POLLS, "c")
