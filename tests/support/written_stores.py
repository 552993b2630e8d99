"""A lake in a bucket, as a user configures and runs it."""

import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.support.object_store import BUCKET, KEY, SECRET
from tests.support.programs import Program
from tests.support.repository import ROOT

LAKE = f"s3a://{BUCKET}/kmh"


def packages() -> dict[str, str]:
    """The jars that docs/object-stores.md names."""
    text = (ROOT / "docs/object-stores.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (found,) = (each for each in map(yaml.safe_load, blocks) if "packages" in each.get("spark", {}))
    of_spark: dict[str, str] = found["spark"]["packages"]
    return of_spark


def configured(folder: Path, store: str, servers: str, **more: Any) -> Path:
    """Write a configuration with a lake in a bucket of the store, and return its file. `more`:
    other keys of the file.
    """
    content = {
        "lake": LAKE,
        "storage": {
            "aws_endpoint_url": store,
            "aws_allow_http": True,
            "aws_region": "us-east-1",
            "aws_access_key_id": KEY,
            "aws_secret_access_key": "env:KAFKA_STORE_SECRET",
        },
        "clusters": {"c0": {"kafka.bootstrap.servers": servers}},
        "poll": {"pollInterval": "1s", "requestTimeout": "10s"},
        "spool": str(folder / "spool"),
        "validation": {"docs": str(folder / "docs")},
        "spark": {"packages": packages()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(content | more))
    return file


class Command(Program):
    """The command, as a user runs it, with the secret in its environment."""

    def __init__(self, config: Path, *words: str, module: str = "kafka_metadata_history") -> None:
        own = {
            name: value
            for name, value in os.environ.items()
            if name not in {"PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONF_DIR"}
        }
        super().__init__(
            [sys.executable, "-m", module, *words, "--config", str(config)],
            config.with_name(f"{'-'.join(word.strip('-') for word in words)}.log"),
            variables=own | {"KAFKA_STORE_SECRET": SECRET},
        )

    def shown(self) -> str:
        """What anybody on the machine sees of it, and of what it has started."""
        found = []
        with suppress(psutil.NoSuchProcess):  # It has ended meanwhile.
            process = psutil.Process(self.pid)
            found += [each.cmdline() for each in [process, *process.children(recursive=True)]]
        return json.dumps(found)


def done(config: Path, words: Sequence[str], within: float = 400) -> tuple[int, str]:
    """Run a command to its end; return its exit status and what it wrote."""
    with Command(config, *words) as command:
        return command.wait(within), command.log()
