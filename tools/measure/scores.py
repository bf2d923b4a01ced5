"""Hold the packages that posenc knows how to call to the laws, and write what was found.

python tools/measure/scores.py             the counts, as text
python tools/measure/scores.py --write     the same into docs/peers.md and docs/data/peers.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from posenc import DependencyError
from posenc.testing import Card, check
from posenc.testing.peers import PEERS, peer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.pages import shelf  # noqa: E402

PAGE = ROOT / "docs" / "peers.md"
DATA = ROOT / "docs" / "data" / "peers.json"
MARKS = {"pass": "✓", "fail": "**✗**", "refused": "·", "not offered": ""}


def cards() -> dict[str, Card]:
    """The card of every package that is installed."""
    found = {}
    for name in PEERS:
        try:
            found[name] = check(peer(name))
        except DependencyError as error:
            print(error, file=sys.stderr)
            continue
        print(f"{name}: {found[name].count('pass')} pass, {found[name].count('fail')} fail")
    return found


def _told(card: Card) -> dict[str, Any]:
    """A card as JSON, with what was asked in the lines for people."""
    reach = None if card.reach is None else card.reach.lines()
    return {**card.to_dict(), "reach": reach}


def page(found: dict[str, Any]) -> str:
    """The cards as tables, one for each kind."""
    versions = {k: v for card in found.values() for k, v in card["versions"].items()}
    listed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    made = (
        "Written by `python tools/measure/scores.py --write`, which holds each package to the laws "
        "of [`posenc check`](check.md) and knows none of its defects beforehand. "
        f"Versions: {listed}."
    )
    lines = [
        "# The battery on other packages",
        "",
        made,
        "",
        "| package | laws that hold | that do not | refused with an error |",
        "|---|--:|--:|--:|",
        *(_counts(name, card) for name, card in found.items()),
        "",
        "✓ holds, **✗** does not, a dot: refused with an error, empty: there is no way to ask.",
    ]
    for kind in ("rotary", "table", "bias"):
        of_kind = {name: card for name, card in found.items() if card["kind"] == kind}
        laws = [row["law"] for row in next(iter(of_kind.values()))["results"]]
        lines += ["", f"## {kind.capitalize()}", ""]
        lines += ["| law | " + " | ".join(of_kind) + " |", "|---" * (len(of_kind) + 1) + "|"]
        for i, law in enumerate(laws):
            marks = [MARKS[card["results"][i]["status"]] for card in of_kind.values()]
            lines.append(f"| {law} | " + " | ".join(marks) + " |")
        lines += [
            "",
            "| package | law | measured | allowed | what was seen |",
            "|---|---|---|---|---|",
        ]
        for name, card in of_kind.items():
            for row in card["results"]:
                if row["status"] == "fail":
                    figures = [_figure(row[key]) for key in ("measured", "bound")]
                    says = row["says"].replace("|", "\\|")
                    lines.append(f"| {name} | {row['law']} | {' | '.join(figures)} | {says} |")
    return "\n".join(lines) + "\n"


def _counts(name: str, card: dict[str, Any]) -> str:
    """How many laws came to which end."""
    ends = [row["status"] for row in card["results"]]
    return f"| {name} | {' | '.join(str(ends.count(e)) for e in ('pass', 'fail', 'refused'))} |"


def _figure(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.2g}"


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page and its data")
    options = parser.parse_args()
    found = {name: _told(card) for name, card in cards().items()}
    if options.write:
        if set(found) != set(PEERS):
            print("Nothing is written: a package is absent.", file=sys.stderr)
            return 1
        DATA.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        shelf.write(PAGE, page(found), long=3, keep=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
