"""The table of all options."""

from metadata_source.options.table import OPTIONS
from tools.reference import option_table


def test_the_table_shows_every_option_once():
    lines = option_table(OPTIONS).splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == [option.name for option in OPTIONS]
    assert all(line.count("|") == 5 for line in lines)
