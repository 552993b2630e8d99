"""Pages of notebooks hold names of a cluster as text, whatever they are."""

import pandas as pd
from nbformat.v4 import new_code_cell, new_notebook, new_output

from notebooks.render import html
from notebooks.tables import readable

HOSTILE = "<script>run()</script><img src=x onerror=run()>"


def test_names_are_text_in_tables_and_in_what_is_printed() -> None:
    table = readable(pd.DataFrame({"group_id": [HOSTILE]}))
    outputs = [
        new_output("stream", text=f"group {HOSTILE}\n"),
        new_output("display_data", data={"text/html": table._repr_html_(), "text/plain": repr(table)}),
    ]
    page = html(new_notebook(cells=[new_code_cell("", outputs=outputs)]), "incident")
    assert page.count("&lt;script&gt;run()&lt;/script&gt;&lt;img src=x onerror=run()&gt;") == 2
    assert "<script" not in page
    assert "<img" not in page
