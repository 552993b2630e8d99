"""The picture of README.md: the page of the demo's cluster when the most partitions were offline,
as Chromium draws it.

``python -m tools.picture``, after a demo.
"""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from PIL import Image

from jobs.configuration.config import load
from kafka_metadata_history.opened import without_spark
from tests.support.chromium import NAMES, found, tab

ROOT = Path(__file__).resolve().parent.parent
CONFIG, PICTURE = ROOT / ".demo" / "demo.yaml", ROOT / "docs" / "cluster.png"
SIZE = (1280, 900)
COLOURS = 64
SETTLED_S = 3
"""Until figures are drawn."""
WORST = """SELECT began_before AS at, cluster FROM gold.incident_timeline
  WHERE what = 'leader_changed' AND after = '-1'
  GROUP BY 1, 2 ORDER BY count(*) DESC, 1 LIMIT 1"""


def main() -> int:
    """Draw it, and return the exit status."""
    if found() is None or not CONFIG.exists():
        print(f"picture: {CONFIG} and one of {', '.join(NAMES)} are needed", file=sys.stderr)
        return 1
    worst = without_spark(load(str(CONFIG)).lake)(WORST).to_pylist()[0]
    given = urlencode({"cluster": worst["cluster"], "at": worst["at"].isoformat()})
    command = [sys.executable, "-m", "kafka_metadata_history", "serve", "--port", "0"]
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            [*command, "--config", str(CONFIG)], stderr=subprocess.PIPE, text=True
        ) as server,
    ):
        try:
            address = server.stderr.readline().split()[0] if server.stderr else ""
            with tab(Path(folder), *SIZE) as browser:
                browser.call("Page.navigate", url=f"{address}/cluster?{given}")
                browser.until("document.querySelector('iframe') !== null")
                browser.value("document.querySelector('iframe').loading = 'eager'")
                frame = "document.querySelector('iframe').contentDocument?.documentElement"
                browser.until(f"{frame}?.dataset.ready === 'yes'", 60)
                time.sleep(SETTLED_S)
                browser.screenshot(drawn := Path(folder) / "drawn.png")
            picture = Image.open(drawn).convert("RGB").crop((0, 0, *SIZE))
            picture.quantize(COLOURS).save(PICTURE, optimize=True)
        finally:
            server.terminate()
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
