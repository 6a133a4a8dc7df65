"""A page seen in headless Chromium, at the widths of screens."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=5000"),
]
SCREENS = {"desktop": 1280, "phone": 390}
FRAMES = """<!doctype html><title>frames</title><pre id="seen"></pre>
<script>
const seen = document.getElementById("seen");
addEventListener("message", (event) => { seen.textContent += event.data + "\\n"; });
</script>
"""
FRAME = """<iframe src="probed.html" style="border:0;width:{}px;height:800px"></iframe>
"""

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium found; apt-get install chromium")


def look_at(page, probe, folder):
    """Return what `probe`, a script put at the end of `page`, posts to the page around it, by its `width`.

    The page stands in a frame for each of `SCREENS`, because a window has a smallest width.
    """
    (folder / "probed.html").write_text(page.replace("</body>", probe + "</body>"), encoding="utf-8")
    frames = FRAMES + "".join(map(FRAME.format, SCREENS.values()))
    (folder / "frames.html").write_text(frames, encoding="utf-8")
    options = ["--window-size=1400,900", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    command = [BROWSER, *FLAGS, *options, (folder / "frames.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    posted = html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL).group(1))
    return {seen["width"]: seen for seen in map(json.loads, posted.strip().splitlines())}
