"""The documents that users read: README.md and docs/, their sections, code blocks and commands."""

import re

from tests.support.repository import ROOT

FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(file.read_text(encoding="utf-8") for file in FILES)
"""All of them, README.md first."""


def document(name: str) -> str:
    """The text of a file of docs/."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """The part of a file of docs/ below a heading, such as "## On the lake", up to the next one of
    its level.
    """
    level = heading.split(maxsplit=1)[0]
    return document(name).split(f"\n{heading}\n")[1].split(f"\n{level} ")[0]


def blocks(language: str) -> list[str]:
    """The code of all documents in a language."""
    found = re.findall(rf"```{language}\n((?:.*\n)+?)```", TEXT)
    assert found
    return found


def commands(pattern: str, text: str = TEXT) -> list[str]:
    """The lines of a shell in `text` that a pattern matches whole, without their prompt and the
    environment's folder. A quoted word of several lines is of one.
    """
    joined = re.sub(
        r'^\$ [^"\n]*"[^"\n]*\n[^"]*"',
        lambda found: found[0].replace("\n", " "),
        text,
        flags=re.MULTILINE,
    )
    return re.findall(rf"^\$ (?:\.venv/bin/)?({pattern})$", joined, re.MULTILINE)
