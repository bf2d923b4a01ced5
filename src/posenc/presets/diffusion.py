"""The rows of diffusers: transformers by class in `configs/diffusers.json`, VAEs in `vaes.json`."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from posenc.presets._rows import read

VERSION = "0.42.1"  # of diffusers, in which the rows were read


@functools.cache
def transformers() -> Mapping[str, Any]:
    """The row of each transformer class."""
    return {name: row for _, row in read("configs", "diffusers") for name in row["classes"]}


@functools.cache
def vaes() -> Mapping[str, Any]:
    """The row of each class of VAEs."""
    return {name: row for _, row in read("configs", "vaes") for name in row["classes"]}


def presets() -> Iterator[tuple[str, dict[str, Any]]]:
    """The presets that rules name, by the keys of other rows of presets, with the file."""
    for file, row in read("configs", "diffusers"):
        for rule in (one for one in row["entries"] if "names" in one):
            path, _, symbol = rule["source"][0].partition(": ")
            place = path if "/" in path else f"models/transformers/{path}"
            source = {"repository": "huggingface/diffusers", "path": f"src/diffusers/{place}"}
            yield (
                file,
                {
                    "name": rule["preset"],
                    "kind": "rotary",
                    "size": "dim",
                    "spec": _spec(rule, row["defaults"]),
                    "sources": [{**source, "symbol": symbol, "version": VERSION}],
                    "recognise": {"model_types": [], "classes": []},
                    "note": rule["names"]["note"],
                },
            )


def _spec(rule: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a preset: axes of any width have the shares of those that the class takes."""
    spec = {**rule["names"]["spec"], **{k: defaults[rule[k]] for k in {"base"} & rule.keys()}}
    if "pairs" in rule:
        first, *widths = defaults[rule["pairs"]]
        shares = [f"dim*{width}//{2 * (first + sum(widths))}" for width in widths]
        sizes = [{"expression": text} for text in (f"dim//2-({'+'.join(shares)})", *shares)]
        spec["arrangement"] = {**spec["arrangement"], "sizes": sizes}
    return spec


def rotary_modules(name: str) -> tuple[str, ...]:
    """The attributes of a class of transformers that make its rotations."""
    leaves = (
        rule.get("modules", {}).get(name, rule.get("module"))
        for rule in transformers().get(name, {"entries": ()})["entries"]
        if rule.get("name") != "embeddings"
    )
    return tuple(dict.fromkeys(filter(None, leaves)))
