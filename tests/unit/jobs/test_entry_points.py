"""The entry points of spark-submit."""

import ast
from pathlib import Path

from jobs.run.cli import parser_of
from tests.support.for_each import for_each
from tests.support.repository import ROOT

JOBS = [file for file in sorted((ROOT / "jobs").glob("*.py")) if file.name != "__init__.py"]
MOST_LINES = 60


@for_each("job", JOBS)
def test_help_says_in_whole_sentences_what_a_job_does(job: Path) -> None:
    described = ast.get_docstring(ast.parse(job.read_text()), clean=False)
    shown = " ".join(parser_of(job.stem, described, "clusters").format_help().split())
    assert described is not None
    assert " ".join(described.partition("\n\n")[0].split()) in shown
    assert described.partition("\n\n")[0].rstrip().endswith(".")


@for_each("job", JOBS)
def test_an_entry_point_is_short(job: Path) -> None:
    assert job.read_text().count("\n") <= MOST_LINES, "what it runs is in jobs/run and its like"
