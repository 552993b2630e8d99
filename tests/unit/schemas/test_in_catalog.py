"""A lake in a catalog: which catalogs forget it, and whose views are made."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from schemas.in_catalog import COMMENT_LENGTH, VIEW_PROPERTY, check_catalog, make_view
from schemas.in_spark import ensure_lake
from schemas.lake import Lake, LakeError
from schemas.views import INCIDENT_TIMELINE as VIEW

IN_MEMORY = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
NAME = "`spark_catalog`.gold.incident_timeline"


def test_a_catalog_that_is_gone_with_the_session_is_refused() -> None:
    session: Any = SimpleNamespace(conf=IN_MEMORY)
    with pytest.raises(LakeError, match=r"^catalog spark_catalog: this session keeps it") as error:
        ensure_lake(session, Lake(catalog="spark_catalog"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("spark_catalog", {"spark.sql.catalogImplementation": "hive"}),
        ("spark_catalog", {"spark.sql.catalog.spark_catalog": "com.example.Catalog"}),
        ("spark_catalog", dict.fromkeys(IN_MEMORY)),
        ("main", {}),
    ],
)
def test_catalogs_that_last(name: str, settings: dict[str, str]) -> None:
    session: Any = SimpleNamespace(conf=IN_MEMORY | settings)
    check_catalog(session, Lake(catalog=name))


class Catalog:
    """A session whose catalog has views; `comments` of the columns of any query."""

    def __init__(self, *, comments: tuple[str, ...] = (), may_make: bool = True) -> None:
        self.views: dict[str, dict[str, str]] = {}
        self.made: list[str] = []
        self.catalog = SimpleNamespace(tableExists=self.views.__contains__)
        self._comments, self._may_make = comments, may_make

    def sql(self, text: str) -> Any:
        if text.startswith("CREATE"):
            if not self._may_make:
                raise AnalysisException("HiveException: Permission denied\n  a plan")
            self.made.append(text)
            self.views[NAME] = {VIEW_PROPERTY: text.split(f"'{VIEW_PROPERTY}' = '")[1][:64]}
        properties = self.views.get(NAME, {}).items()
        fields = [
            SimpleNamespace(name=f"c{place}", metadata={"comment": comment} if comment else {})
            for place, comment in enumerate(self._comments)
        ]
        return SimpleNamespace(
            collect=lambda: [SimpleNamespace(key=key, value=value) for key, value in properties],
            schema=SimpleNamespace(fields=fields),
        )


def test_a_view_is_made_once_and_again_for_another_query() -> None:
    session: Any = Catalog()
    for query, made in (("SELECT 1", 1), ("SELECT 1", 1), ("SELECT 2", 2)):
        make_view(session, NAME, VIEW, query)
        assert len(session.made) == made
    make_view(session, NAME, VIEW, "SELECT 3", replaces=False)
    assert len(session.made) == 2
    # One that a version made which marked none.
    session.views[NAME] = {}
    make_view(session, NAME, VIEW, "SELECT 2")
    assert len(session.made) == 3


def test_comments_that_are_too_long_for_catalogs_are_cut() -> None:
    session: Any = Catalog(comments=("", "it's short", "word " * 60, "x" * COMMENT_LENGTH))
    make_view(session, NAME, VIEW, "SELECT 1")
    cut = f"{'word ' * 49}word..."
    assert (
        f"(`c0`, `c1` COMMENT 'it\\'s short', `c2` COMMENT '{cut}', `c3` COMMENT 'xx"
        in (session.made[0])
    )
    assert len(cut) <= COMMENT_LENGTH
    assert "x" * COMMENT_LENGTH in session.made[0]


def test_whoever_may_make_no_view_reads_who_does() -> None:
    session: Any = Catalog(may_make=False)
    with pytest.raises(LakeError) as error:
        make_view(session, NAME, VIEW, "SELECT 1")
    assert str(error.value) == (
        f"view {NAME} is not there, and cannot be made: Permission denied; a user who may make it "
        "makes it by `kafka-metadata-history run`"
    )
