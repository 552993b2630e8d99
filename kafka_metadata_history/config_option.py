"""The option --config of commands."""

import click

from kafka_metadata_history.names import NAME

CONFIG = f"{NAME}.yaml"

config_option = click.option(
    "--config",
    default=CONFIG,
    show_default=True,
    envvar="KAFKA_METADATA_HISTORY_CONFIG",
    show_envvar=True,
    metavar="FILE",
    help="YAML: the lake, the clusters.",
)
