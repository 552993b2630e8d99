"""Data of a page of the report: what its figures draw, and the rows behind."""

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from bs4 import BeautifulSoup


def data_of(page: str) -> dict[str, Any]:
    element = BeautifulSoup(page, "html.parser").find(id="data")
    assert element is not None
    return json.loads(element.get_text())


def rows_of(page: str, section: str) -> list[list[Any]]:
    """The rows behind all marks of a figure."""
    (own,) = (each for each in data_of(page)["sections"] if each["name"] == section)
    return [row for _, rows in own["marks"] for row in rows]


def marks_of(page: str, section: str) -> dict[str, list[Any]]:
    """The columns that a figure in lanes draws."""
    return columns_of(page, f"{section} rows")


def columns_of(page: str, name: str) -> dict[str, list[Any]]:
    """The columns of a source by its name."""
    for root in data_of(page)["docs"]["report"]["roots"]:
        for source in _sources(root):
            if source.get("name") == name:
                return {key: _plain(value) for key, value in source["data"]["entries"]}
    raise AssertionError(name)


def _sources(model: Any) -> Iterator[dict[str, Any]]:
    if isinstance(model, dict):
        if model.get("name") == "ColumnDataSource":
            yield model["attributes"]
        model = list(model.values())
    if isinstance(model, list):
        for each in model:
            yield from _sources(each)


def _plain(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    packed = base64.b64decode(value["array"]["data"])
    return list(np.frombuffer(gzip.decompress(packed), value["dtype"]))
