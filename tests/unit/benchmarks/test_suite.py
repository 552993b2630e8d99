"""Which measures give which names."""

from inspect import signature

import pytest

from benchmarks.__main__ import main
from benchmarks.aims import AIMS, BY_NAME
from benchmarks.suite import LONG, MEASURES, chosen
from tests.support.for_each import for_each


def names(*only: str, every: bool = False) -> set[str]:
    return {name for measure in chosen(only, every=every) for name in measure.names}


def test_every_name_is_measured_once() -> None:
    measured = [name for measure in MEASURES.values() for name in measure.names]
    assert sorted(measured) == sorted(BY_NAME)
    assert len(BY_NAME) == len(AIMS)


@for_each("name", MEASURES)
def test_each_measure_is_a_function_of_a_folder_a_listener_and_a_number_of_runs(name: str) -> None:
    parameters = signature(MEASURES[name].load()).parameters
    assert [each.lstrip("_") for each in parameters] == ["folder", "say", "runs"]


def test_names_choose_what_is_measured() -> None:
    assert names("news_s") == names("small") == {"quiet_s", "news_s"}
    assert names("news_s", "large_mb") == names("small") | names("large")
    long = names(*LONG)
    assert {"test_s", "fleet_1000_mb", "sizing_50_cores", "year_counts_x"} < long
    assert names() == BY_NAME.keys() - long
    assert names(every=True) == BY_NAME.keys()


def test_a_name_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "news_s,new_s"])
    assert ended.value.code == 2
    assert "no such name: new_s; --help lists all" in capsys.readouterr().err
