"""Notebooks, run in this process."""

import ast

import nbformat

from notebooks import render


def shown(name: str, **parameters: object) -> list[object]:
    """What the cells of a notebook show."""
    found = []
    names_there: dict[str, object] = {}
    notebook = render.with_parameters(
        nbformat.read(render.FOLDER / f"{name}.ipynb", as_version=4), parameters
    )
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        *lines, last = ast.parse(cell.source.replace("%reset -f", "pass")).body
        exec(compile(ast.Module(lines, []), name, "exec"), names_there)  # noqa: S102 - our own notebook
        if isinstance(last, ast.Expr):
            found.append(eval(compile(ast.Expression(last.value), name, "eval"), names_there))  # noqa: S307
        else:
            exec(compile(ast.Module([last], []), name, "exec"), names_there)  # noqa: S102
    return found
