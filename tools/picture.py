"""The picture of README.md: the report of the demo, as Chromium draws it.

``python -m tools.picture``, after a demo.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / ".demo" / "incident.html", ROOT / "docs" / "incident.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LEFT_OUT = "header > *:not(h1, .counts), .largest"
"""CSS: the parts above the figures that the picture leaves out."""
SIZE = (1280, 1240)
COLOURS = 64


def main() -> int:
    """Draw it, and return the exit status."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None or not PAGE.exists():
        print(f"picture: {PAGE} and one of {', '.join(BROWSERS)} are needed", file=sys.stderr)
        return 1
    with TemporaryDirectory() as folder:
        page, drawn = Path(folder) / "page.html", Path(folder) / "drawn.png"
        page.write_text(
            PAGE.read_text("utf-8").replace(
                "</head>", f"<style>{LEFT_OUT} {{display: none}}</style></head>", 1
            )
        )
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--hide-scrollbars",
            "--virtual-time-budget=20000",
        ]
        flags += [
            f"--window-size={SIZE[0]},{SIZE[1]}",
            f"--user-data-dir={folder}/profile",
            f"--screenshot={drawn}",
        ]
        subprocess.run([program, *flags, page.as_uri()], check=True, stderr=subprocess.DEVNULL)
        Image.open(drawn).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
