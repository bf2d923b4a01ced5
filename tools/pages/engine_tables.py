"""What engines make of rotary parameters: the tables by which `extend` and `diff` know it."""

from __future__ import annotations

from collections.abc import Iterator

from posenc.presets.families import engines
from posenc.presets.row_types_gguf import Engine, EngineFamily

TRIED = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")


def table() -> str:
    """A row for each type of model: what becomes of each rule."""
    head = [f"| engine | type | {' | '.join(TRIED)} |", f"|---|---|{'---|' * len(TRIED)}"]
    lines = [line for name, one in engines().items() for line in _rows(name, one)]
    note = (
        "`=` is the rule with every key that was tried; `−key` is one that changes nothing; `?key` "
        "one with which the engine computes something else; another word is the rule that it makes "
        "of this one; an empty cell is not known. Types that vLLM gives to transformers' own class "
        "read as that class does."
    )
    return "\n".join([*head, *lines, "", note])


def _rows(name: str, engine: Engine) -> Iterator[str]:
    for family in engine["families"]:
        cells = " | ".join(_cell(engine, family, rule) for rule in TRIED)
        more = [f", `{key}` absent is {v}" for key, v in family.get("absent", {}).items()]
        for kind in family["sources"]:
            yield f"| {name} {engine['release']} | `{kind}`{''.join(more)} | {cells} |"


def _cell(engine: Engine, family: EngineFamily, name: str) -> str:
    """What becomes of a rule, in a word, and of its keys."""
    if family.get("as_transformers"):
        return "as transformers"
    if name not in family["rules"]:
        return ""
    rule = engine["rules"][family["rules"][name]]
    if "kinds" in rule or "stops" in rule:
        return "by the kind of layer" if "kinds" in rule else "stops"
    marks = [f"−{key}" for key in rule.get("passes", ())]
    marks += [f"?{key}" for key in rule.get("unlike", ())]
    marks += [f"{key} needed" for key in rule.get("needs", ())]
    marks += [f"{key} as a whole number" for key in rule.get("integers", ())]
    word = "=" if rule["follows"] == name else rule["follows"]
    return f"{word} {', '.join(marks)}".strip()
