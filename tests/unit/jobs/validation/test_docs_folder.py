"""Data docs take the place of data docs, and of nothing else."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from jobs.configuration.config import Config, ConfigError
from jobs.validation import run
from jobs.validation.docs_folder import check_replaceable, replace_docs
from schemas.lake import Lake


def build(text: str, docs: Path) -> None:
    docs.mkdir()
    (docs / "index.html").write_text(text)


def test_a_folder_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(
        ConfigError, match=r"^validation\.docs: .* name a folder that is empty or not there yet$"
    ):
        check_replaceable(tmp_path)
    with pytest.raises(ConfigError):
        replace_docs(tmp_path, lambda new: build("one", new))
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ConfigError):
        check_replaceable(tmp_path / "thesis.tex")


@pytest.mark.parametrize("there", [False, True])
def test_docs_replace_an_empty_folder_and_then_themselves(tmp_path: Path, there: bool) -> None:
    docs = tmp_path / "in" / "docs"
    if there:
        docs.mkdir(parents=True)
    for text in ("one", "two"):
        check_replaceable(docs)
        replace_docs(docs, lambda new, text=text: build(text, new))
        assert (docs / "index.html").read_text() == text
    assert list(docs.parent.iterdir()) == [docs]


def test_docs_that_could_not_be_built_leave_the_last_ones(tmp_path: Path) -> None:
    replace_docs(tmp_path / "docs", lambda new: build("one", new))

    def fail(_: Path) -> None:
        raise RuntimeError("no space")

    with pytest.raises(RuntimeError):
        replace_docs(tmp_path / "docs", fail)
    assert (tmp_path / "docs" / "index.html").read_text() == "one"
    assert list(tmp_path.iterdir()) == [tmp_path / "docs"]


def test_validation_says_so_before_it_reads_the_lake(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    config = Config(lake=Lake(root=str(tmp_path)), checkpoints="", clusters={}, docs=str(tmp_path))
    with pytest.raises(ConfigError, match="holds something else than data docs"):
        run.apply(cast("Any", None), config, datetime(2026, 11, 1, tzinfo=UTC))
