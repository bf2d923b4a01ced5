/** The story in Firefox, by WebDriver BiDi: node firefox.check.cjs PROGRAM ADDRESS. */

const puppeteer = require("puppeteer-core");

const wrong = [];
const figures = new Set();

/** Every scene in a window of a size; a new Firefox for each, as it has no command for that. */
async function look(executablePath, address, [width, height]) {
  const args = [`--width=${width}`, `--height=${height}`];
  const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true, args, defaultViewport: null });
  try {
    const page = await browser.newPage();
    page.on("pageerror", (error) => wrong.push(String(error)));
    page.on("console", (message) => {
      if (["error", "warn"].includes(message.type())) wrong.push(message.text());
    });
    for (let scene = 1; scene <= 7; scene += 1) {
      await page.goto("about:blank");
      await page.goto(`${address}#scene=${scene}`);
      // The policy of the page forbids what waits inside it.
      const settled = (n) => document.body.dataset.scene === `Scene ${n}.` && !document.body.matches(".asking");
      const end = Date.now() + 20_000;
      while (!(await page.evaluate(settled, scene)) && Date.now() < end) await new Promise((go) => setTimeout(go, 50));
      const { fits, said, drawn } = await page.evaluate(() => ({
        fits: document.documentElement.scrollWidth <= innerWidth,
        said: document.querySelector("#outcome").textContent,
        drawn: document.querySelector("#panels").innerHTML.length,
      }));
      if (!fits || said.length < 20 || drawn < 500) wrong.push(`scene ${scene} at ${width}: ${said} (${drawn})`);
      figures.add(said);
      if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/firefox-${width}-${scene}.png` });
    }
  } finally {
    await browser.close();
  }
}

async function main() {
  const [program, address] = process.argv.slice(2);
  for (const size of [[1440, 985], [820, 1265], [450, 929]]) await look(program, address, size);
  if (figures.size < 7) wrong.push(`scenes are alike: ${[...figures]}`);
  if (wrong.length) throw new Error(wrong.join("\n"));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
