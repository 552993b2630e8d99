"""Run notebooks on a lake and write what they show: an HTML file each, whole in itself.

python -m notebooks incident [isr_history ...] --config FILE [--since "2 hours"] [--until TIME]
[--cluster C] [--topic T] [--broker ID] [--group G]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from notebooks.render import NotebookError, executed, html, kernel, names


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    arguments = _parser().parse_args(argv)
    parameters: dict[str, object] = {"lake": str(Path(arguments.config).resolve())}
    for name in ("since", "until", "cluster", "topic", "broker", "group"):
        if (value := getattr(arguments, name)) is not None:
            parameters[name] = value
    arguments.to.mkdir(parents=True, exist_ok=True)
    try:
        with kernel() as manager:
            for name in arguments.notebook:
                file = arguments.to / f"{name}.html"
                file.write_text(html(executed(name, parameters, manager), name), encoding="utf-8")
                print(file)
    except NotebookError as error:
        print(f"notebooks: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="notebooks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebook", nargs="+", choices=names(), help=" or ".join(names()))
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="YAML: the lake (see conf/)"
    )
    parser.add_argument(
        "--since", help="a time in ISO form, or how long before --until (default: 1 day)"
    )
    parser.add_argument("--until", help="a time in ISO form, or how long ago (default: now)")
    parser.add_argument(
        "--cluster", help="this alias alone (default: the one to which most happened)"
    )
    parser.add_argument("--topic", help="this topic alone")
    parser.add_argument("--broker", type=int, metavar="ID", help="this broker alone")
    parser.add_argument("--group", metavar="G", help="this group alone, where groups are shown")
    parser.add_argument(
        "--to",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="where the files go (default: here)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
