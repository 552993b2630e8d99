"""Run notebooks without a browser, and keep an HTML file of each, which loads nothing."""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

FOLDER = Path(__file__).resolve().parent
_TEMPLATE = """
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
"""
"""JupyterLab's looks without the scripts that it would load from elsewhere."""


class NotebookError(RuntimeError):
    """Raised when a notebook did not run to its end. One line: which, and what its cell said."""


def names() -> list[str]:
    """The notebooks."""
    return sorted(file.stem for file in FOLDER.glob("*.ipynb"))


@contextmanager
def kernel() -> Iterator[KernelManager]:
    """A process that runs notebooks in their folder, one after the other."""
    with TemporaryDirectory() as folder:
        # Sockets that only this user can reach, and no port: a kernel runs whatever it is sent.
        manager = KernelManager(
            kernel_name="python3", transport="ipc", ip=str(Path(folder) / "kernel")
        )
        try:
            yield manager
        finally:
            if manager.has_kernel:
                manager.shutdown_kernel()


def executed(name: str, parameters: Mapping[str, object], manager: KernelManager) -> NotebookNode:
    """A notebook with its outputs. Raises NotebookError."""
    notebook = with_parameters(nbformat.read(FOLDER / f"{name}.ipynb", as_version=4), parameters)
    client = NotebookClient(
        notebook, km=manager, timeout=None, resources={"metadata": {"path": str(FOLDER)}}
    )
    try:
        return client.execute()
    except CellExecutionError as error:
        raise NotebookError(
            f"{name}: {error.ename}: {error.evalue.strip().splitlines()[0]}"
        ) from error
    finally:
        if client.kc is not None:
            client.kc.stop_channels()


def with_parameters(notebook: NotebookNode, parameters: Mapping[str, object]) -> NotebookNode:
    """A notebook with these parameters, in a cell after the one tagged `parameters`."""
    notebook = copy.deepcopy(notebook)
    (place,) = (
        n for n, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", ())
    )
    lines = [f"{name} = {value!r}" for name, value in parameters.items()]
    notebook.cells.insert(place + 1, new_code_cell("\n".join(lines)))
    # What another notebook left in the kernel is gone, as if this one had been opened alone.
    notebook.cells.insert(0, new_code_cell("%reset -f"))
    return notebook


def html(notebook: NotebookNode, title: str) -> str:
    """The page of a notebook that ran, without its code and what Spark wrote to stderr."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    exporter = HTMLExporter(
        raw_template=_TEMPLATE,
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    page, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}})
    return str(page)
