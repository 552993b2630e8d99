"""Random lives of a cluster as polls answer them, and their history in rounds cut anywhere,
against rules that were written a second time.
"""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

from metadata_source.kinds import KAFKA
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import VERSIONS, VERSIONS_WITHOUT_IDS, Answer, RandomCluster
from tests.support.oracles.silver import expected_rows
from tests.support.silver_rounds import Lake, comparable

ALIAS = "c"
CLUSTER_ID = f"id-{ALIAS}"


@st.composite
def histories(
    draw: st.DrawFn, most: int = 20, mistaken_for: Sequence[str | None] = (None, "id-b")
) -> list[Answer]:
    """Whose every step is drawn, so that they shrink."""
    life = draw(st.randoms(use_true_random=False))
    kinds = draw(
        st.sampled_from(
            [
                *(
                    (),
                    ("configs", "groups", "quorum"),
                    ("elr", "fenced", "reassignments", "transactions"),
                ),
                ("log_dirs", "configs"),
                ("configs", "elr", "reassignments"),
            ]
        )
    )
    versions = draw(st.sampled_from([VERSIONS, VERSIONS_WITHOUT_IDS]))
    runs = draw(st.sampled_from([0.3, 0.02, 0.0]))
    cluster = RandomCluster(ALIAS, life, draw(st.sampled_from(mistaken_for)), kinds, versions)
    return cluster.answers(draw(st.integers(1, most)), runs=runs)


def claimed(answers: list[Answer]) -> str | None:
    return CLUSTER_ID if any(a.ok and a.cluster_id == CLUSTER_ID for a in answers) else None


def folded(
    answers: list[Answer],
    cuts: list[int],
    *,
    narrowed: bool = False,
    repeats: int = 0,
    kind: str = KAFKA,
) -> Lake:
    """The lake after rounds over the polls between cuts; each round also names `repeats` polls that
    were taken before.
    """
    bronze = bronze_rows(ALIAS, answers)
    ids = sorted(a.poll_id for a in answers)
    lake = Lake(ALIAS, narrowed, kind)
    for since, until in pairwise(sorted({0, *cuts, len(ids)})):
        so_far = [a for a in answers if a.poll_id in ids[:until]]
        lake.take(bronze, ids[max(0, since - repeats) : until], claimed(so_far))
    return lake


def cuts_of(answers: list[Answer]) -> st.SearchStrategy[list[int]]:
    """Nowhere, anywhere, or after every poll."""
    every = list(range(len(answers) + 1))
    return st.just([]) | st.lists(st.sampled_from(every), max_size=6) | st.just(every)


def check_rows(lake: Lake, answers: list[Answer]) -> None:
    expected = comparable(expected_rows(answers, ALIAS, lake.kind))
    assert lake.rows.keys() == expected.keys()
    for table, of_table in expected.items():
        assert lake.rows[table] == of_table, table
