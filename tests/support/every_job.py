"""All that a user runs, in one session: the pipeline, validation, questions, reads of one's own;
and Spark's pages.

spark-submit tests/support/every_job.py FOLDER

FOLDER has config.yaml and reads.json (format and options of each read). The exit statuses of the
jobs go to statuses.json, the pages of Spark's UI to ui/.
"""

import json
import sys
import traceback
import urllib.request
from pathlib import Path

from pyspark.sql import SparkSession

from jobs import pipeline, query, validate
from jobs.run.session import spark_session

PAGES = ("environment", "jobs", "stages", "executors", "SQL", "StreamingQuery")
ANSWERS = {
    "environment": "environment",
    "sql": "sql?details=true&planDescription=true&length=10000",
    "jobs": "jobs",
}


def main(folder: Path) -> None:
    """Run everything; what fails is told, and the next thing is run."""
    config = ["--config", str(folder / "config.yaml")]
    statuses = {
        "pipeline": pipeline.main([*config, "--once"]),
        "validate": validate.main(config),
        "timeline": query.main(["timeline", *config]),
        "polls": query.main(["SELECT * FROM bronze.metadata_polls", *config, "--format", "csv"]),
        "members": query.main(
            ["SELECT * FROM gold.rebalance_members", *config, "--format", "json"]
        ),
    }
    spark = spark_session("every job")
    for source, options in json.loads((folder / "reads.json").read_text()):
        read(spark, source, options)
    keep_pages(spark, folder / "ui")
    (folder / "statuses.json").write_text(json.dumps(statuses))


def read(spark: SparkSession, source: str, options: dict[str, str]) -> None:
    """Print the plans of a batch read and what was read, or all that is said of what is wrong."""
    try:
        frame = spark.read.format(source).options(**options).load()
        frame.explain(extended=True)
        print(f"{len(frame.collect())} rows")
    except Exception:  # noqa: BLE001 - whatever it is, it is printed
        traceback.print_exc()


def keep_pages(spark: SparkSession, folder: Path) -> None:
    """Keep what Spark's UI shows, and what its REST interface answers."""
    folder.mkdir()
    context = spark.sparkContext
    urls = {f"{page}.html": f"{context.uiWebUrl}/{page}/" for page in PAGES}
    answers = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    urls |= {f"{name}.json": f"{answers}/{path}" for name, path in ANSWERS.items()}
    for name, url in urls.items():
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - Spark's own
            (folder / name).write_bytes(answer.read())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
