"""The labels of lanes."""

from kafka_metadata_history.report.figures import LABEL, labels


def test_labels_of_lanes_are_short_and_each_is_there_once() -> None:
    names = ["a" * 40, "a" * 39 + "b", "a" * 20 + "c" * 7 + "a" * 13, "", " ", "short"]
    found = labels(names)
    assert len(set(found)) == len(names)
    assert max(map(len, found)) <= LABEL
    assert found[-1] == "short"
    assert all(each.strip() for each in found)
