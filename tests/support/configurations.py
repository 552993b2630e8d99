"""A configuration that loads, and files of it."""

from pathlib import Path

GOOD = """
lake: /data/lake
clusters:
  prod:
    kafka.bootstrap.servers: b1:9092,b2:9092
    kafka.sasl.password: env:PASSWORD
    kafka.sasl.username: monitor
    kafka.sasl.mechanism: SCRAM-SHA-512
    kafka.security.protocol: SASL_SSL
poll:
  pollInterval: 15s
  topics: [orders, payments]
retention:
  bronze: 3d
  gold: 400 days
thresholds:
  flaps: 4
  flapWindow: 1h
  storm: 7
  crashLoopWindow: 30m
"""


def config(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return file
