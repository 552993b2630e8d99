"""The command report; what the page shows is in tests/unit/kafka_metadata_history/report."""

from functools import partial
from pathlib import Path

import pytest

from kafka_metadata_history.command import USAGE
from schemas.table import LAKE_VERSION
from tests.support.printed import printed_by
from tests.support.store_lake import stored, unpacked

asked = partial(printed_by, "report")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Half of the known incident."""
    folder = tmp_path_factory.mktemp("stored")
    file = folder / "config.yaml"
    file.write_text(
        f"lake: {unpacked(stored(LAKE_VERSION), folder)}\n"
        "clusters: {prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}\n"
    )
    return str(file)


def test_the_week_is_printed_and_is_in_the_page(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "week.html"
    arguments = ("--week", "--until", "2026-11-02T09:00:00Z", "--out", str(out))
    found, answer, beside = asked(config, *arguments, capsys=capsys)
    assert found == 0
    heading, _, first, *_ = answer.splitlines()
    assert heading.split()[:4] == ["cluster", "what", "of", "week"]
    assert "not observed s" in heading
    assert first.split()[:5] == ["prod", "bad", "seconds", "for", "writes"]
    page = out.read_text()
    assert "Seven days against the seven before" in page
    assert "<dd>2026-10-26 00:00:00Z to 2026-11-02 00:00:00Z</dd>" in page
    assert beside[-1].startswith(f"{out}: ")


def test_a_page_without_a_week_prints_none(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    window = ("--since", "2026-11-01", "--until", "2026-11-02")
    found, answer, _ = asked(config, *window, "--out", str(out), capsys=capsys)
    assert (found, answer) == (0, "")
    assert "Seven days against the seven before" not in out.read_text()


@pytest.mark.parametrize(
    "given", [("--topic", "orders"), ("--broker", "1"), ("--group", "g"), ("--since", "3 days")]
)
def test_a_week_is_of_whole_clusters(
    config: str, given: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found, answer, beside = asked(config, "--week", *given, capsys=capsys)
    assert (found, answer) == (USAGE, "")
    assert beside[-1].endswith(f"of seven whole days, and of whole clusters: leave out {given[0]}")
