"""The command pack: the environment of executors, in one file."""

from pathlib import Path

import click

from kafka_metadata_history.printed import say
from metadata_source.text import counted


@click.command()
@click.argument("archive", metavar="FILE.tar.gz", type=click.Path(path_type=Path))
def pack(archive: Path) -> None:
    """Pack what executors of a Spark cluster need.

    It is this package, its extras connect, msk and validation if they are installed, and all
    that these need. The jars of Spark are left out.
    """
    from kafka_metadata_history import environment  # noqa: PLC0415 - of all commands, one packs

    packed = environment.pack(archive)
    size, extras = archive.stat().st_size, ", ".join(packed.extras) or "none"
    line = (
        f"{archive}: {size / 1e6:.0f} MB, {counted(len(packed.packages), 'package')}, extras "
        f"{extras}; each machine needs the same Python at {packed.python}"
    )
    say([line])
