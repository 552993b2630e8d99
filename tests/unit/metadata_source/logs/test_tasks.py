"""Which spans of logs one task reads, and what lies between positions of clusters."""

from hypothesis import given
from hypothesis import strategies as st

from metadata_source.logs.tasks import CLUSTERS_A_TASK, OFFSETS_A_TASK, grouped, spans
from metadata_source.logs.topic.positions import LogPosition, Span


def test_a_cluster_that_is_found_has_a_batch_without_rows() -> None:
    position = LogPosition("cluster", "topic", {0: 10})
    assert list(spans({}, {"c": position})) == []
    assert list(spans({"c": LogPosition("cluster", None, {})}, {"c": position})) == []


def test_a_cluster_that_is_gone_from_the_end_has_nothing_to_read() -> None:
    position = LogPosition("cluster", "topic", {0: 10})
    assert list(spans({"c": position, "gone": position}, {"c": position})) == []


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2 * OFFSETS_A_TASK)), max_size=80))
def test_each_span_is_read_by_one_task_and_a_task_takes_no_more_than_it_may(sizes):
    between = [
        Span(f"c{cluster}", None, None, n, 0, size) for n, (cluster, size) in enumerate(sizes)
    ]
    found = list(grouped(between))
    assert (
        sorted(
            (span for task in found for spans_ in task.values() for span in spans_),
            key=lambda span: span.partition,
        )
        == between
    )
    for task in found:
        assert len(task) <= CLUSTERS_A_TASK
        assert {span.cluster for spans_ in task.values() for span in spans_} == set(task)
        *others, _ = sorted(
            (span for spans_ in task.values() for span in spans_), key=lambda span: span.partition
        )
        assert sum(span.end for span in others) < OFFSETS_A_TASK


def test_many_clusters_with_little_news_are_few_tasks():
    between = [
        Span(f"c{cluster}", None, None, n, 0, 20) for cluster in range(300) for n in range(50)
    ]
    assert len(list(grouped(between))) == 19
