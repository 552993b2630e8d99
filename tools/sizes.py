"""Print how large the package is with what it needs, and what each extra adds.

python -m tools.sizes: megabytes of the files in this environment, without what Python compiled.
"""

from importlib.metadata import distribution
from pathlib import Path

from tools.licences import EXTRAS, PACKAGE, needed


def main() -> None:
    """Print a line for the package, and one for each extra."""
    base = needed(frozenset()).keys() - {PACKAGE}
    _print("none", base)
    for extra in EXTRAS:
        _print(extra, needed(frozenset({extra})).keys() - base - {PACKAGE})


def _print(extra: str, names: set[str]) -> None:
    sizes = {name: _bytes(name) for name in names}
    largest = sorted(names, key=sizes.__getitem__, reverse=True)[:3]
    of_these = ", ".join(f"{name} {sizes[name] / 1e6:,.0f}" for name in largest)
    print(f"{extra}: {len(names)} packages, {sum(sizes.values()) / 1e6:,.0f} MB ({of_these})")


def _bytes(name: str) -> int:
    files = [Path(str(each.locate())) for each in distribution(name).files or ()]
    return sum(each.stat().st_size for each in files if each.suffix != ".pyc" and each.is_file())


if __name__ == "__main__":
    main()
