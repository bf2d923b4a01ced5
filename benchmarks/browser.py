"""From a key to changed pixels in the explorer: `python benchmarks/browser.py`.

The real server and Debian's Chromium, headless, on this machine. A step is an arrow key; its time
ends when the frame that follows the drawing has begun, so that the browser has painted. A burst is
40 keys at 30 a second: how many of its pictures are seen, and how far the last lags behind.
The target is a 90th percentile of less than 60 ms on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.browser.serving import browser_path, command

from benchmarks.rows import append, circumstances

STATES = {
    "table 512 x 128": "v=table&L=512&d=128",
    "table 40,960 x 512": "v=table&L=40960&d=512",
    "waves": "v=waves",
    "sentence": "v=sentence",
    "distance": "v=distance",
    "rotate": "v=rotate",
    "bias": "v=bias",
    "stretch": "v=stretch",
}
STEPS = 60
STEP = """async key => {
  const drawn = () => new Promise((resolve) => {
    const watch = new MutationObserver(() => { watch.disconnect(); resolve(); });
    watch.observe(document.body, { attributes: true, attributeFilter: ["data-frames"] });
  });
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const seen = drawn();
  const start = performance.now();
  const init = { key, bubbles: true, cancelable: true };
  document.body.dispatchEvent(new KeyboardEvent("keydown", init));
  await seen;
  await frame();
  await frame();
  return performance.now() - start;
}"""
BURST = """async keys => {
  const before = Number(document.body.dataset.frames);
  let last = 0;
  const watch = new MutationObserver(() => { last = performance.now(); });
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-frames"] });
  for (let count = 0; count < 40; count += 1) {
    const init = { key: keys[count % 2], bubbles: true, cancelable: true };
    document.body.dispatchEvent(new KeyboardEvent("keydown", init));
    await new Promise((resolve) => setTimeout(resolve, 1000 / 30));
  }
  const end = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 500));
  return [Number(document.body.dataset.frames) - before, Math.max(0, last - end + 1000 / 30)];
}"""


def measure(page: Any, address: str, state: str) -> dict[str, float]:
    page.goto("about:blank")
    page.goto(f"{address}#{state}")
    page.locator("body[data-frames]:not(.asking)").wait_for()
    keys = ("ArrowRight", "ArrowLeft")
    times = [page.evaluate(STEP, keys[n % 2]) for n in range(STEPS + 5)][5:]
    drawn, lag = page.evaluate(BURST, keys)
    deciles = statistics.quantiles(times, n=10)
    return {
        "p50_ms": round(statistics.median(times), 1),
        "p90_ms": round(deciles[8], 1),
        "n": len(times),
        "drawn_of_40": drawn,
        "lag_ms": round(lag, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="print the rows, keep none")
    dry = parser.parse_args().dry_run
    from playwright.sync_api import sync_playwright

    rows = []
    with command() as (_, address), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        for name, state in STATES.items():
            row = {"state": name, **measure(page, address, state)}
            print(*row.values(), sep="  ")
            rows.append(row)
        version = browser.version
        browser.close()
    if not dry:
        common = {**circumstances("numpy", "starlette", "uvicorn", "posenc"), "chromium": version}
        print(append("browser", [{"bench": "browser", **row, **common} for row in rows]))


if __name__ == "__main__":
    main()
