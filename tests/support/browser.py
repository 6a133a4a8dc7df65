"""A page seen in headless Chromium, at the width of a screen."""

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
FRAME = """<!doctype html><title>frame</title><pre id="seen"></pre>
<script>
addEventListener("message", (event) => { document.getElementById("seen").textContent = event.data; });
</script>
<iframe src="probed.html" style="border:0;width:WIDTHpx;height:800px"></iframe>
"""

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium found; apt-get install chromium")


def look_at(page, probe, width, folder):
    """Return what `probe`, a script put at the end of `page`, posts to the page around it.

    The page stands in a frame `width` pixels wide, because a window has a smallest width.
    """
    (folder / "probed.html").write_text(page.replace("</body>", probe + "</body>"), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    options = ["--window-size=1400,900", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    command = [BROWSER, *FLAGS, *options, (folder / "frame.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(html.unescape(re.search(r'<pre id="seen">(.*?)</pre>', dom, re.DOTALL).group(1)))
