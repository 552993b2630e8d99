"""Metrics of a lake in a folder: read once for each version, by its own files."""

from pathlib import Path

import pytest

from kafka_metadata_history.answers.metrics import kept
from kafka_metadata_history.answers.metrics.kept import KeptMetrics
from kafka_metadata_history.live import LiveLake
from schemas import incidents
from schemas.lake import Lake, LakeError
from tests.support import stored
from tests.support.asof_lakes import KNOWN
from tests.support.delta_lakes import delta_lake
from tests.support.exported_metrics import config, of, samples, time
from tests.support.incident_rows import bounds, incident

UNTIL = 120.1


def test_a_version_is_read_once_and_a_new_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = delta_lake(tmp_path / "lake", KNOWN)
    reads = []

    def counting(*arguments: object, **options: object) -> object:
        reads.append(options["before"])
        return read_state(*arguments, **options)  # type: ignore[arg-type]

    read_state = kept.read_state
    monkeypatch.setattr(kept, "read_state", counting)
    metrics = KeptMetrics(LiveLake(lake), config({"prod": {}, "east": {}}))
    assert not metrics.is_asked
    for after in (1, 30):
        found = samples(metrics.text(time(UNTIL + after)))
        assert of(found, "record_age_seconds", cluster="prod") == pytest.approx(after)
        assert of(found, "brokers", cluster="prod") == 3
    assert (reads, metrics.is_asked) == ([None], True)
    opened = incident("d" * 12, "quorum_lost", bounds((1, 2)), cluster="prod", severity="page")
    stored.append(lake, incidents.INCIDENTS, [opened])
    for after in (31, 104.8):
        found = samples(metrics.text(time(UNTIL + after)))
        assert of(found, "record_age_seconds", cluster="prod") == pytest.approx(after)
        assert of(found, "open_incidents", cluster="prod", severity="page") == 1
    # Without a new version, a cluster ceases to be observed.
    found = samples(metrics.text(time(UNTIL + 105.2)))
    assert {dict(labels)["cluster"] for name in found for labels in found[name]} == {"prod", "east"}
    assert set(found) == {"record_age_seconds"}
    assert len(reads) == 2
    assert reads[1] is not None, "the state before saves what changes slowly"


def test_no_lake_is_one_line(tmp_path: Path) -> None:
    metrics = KeptMetrics(LiveLake(Lake(root=str(tmp_path / "none"))), config({"prod": {}}))
    with pytest.raises(LakeError, match="no lake there"):
        metrics.text(time(0))
    assert not metrics.is_asked
