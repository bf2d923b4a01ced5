"""Plans of published configs beside what transformers computes for the same dictionaries.

    python tools/models/config_corpus.py             the counts, and every row that is not equal
    python tools/models/config_corpus.py --write     the table of docs/configs.md
    python tools/models/config_corpus.py --reopen D  read every row again from repositories in D

The rows and the numbers lie in `tests/golden/configs`; `config_oracle.py` made the numbers.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from tools.models.config_oracle import PARTS, golden, models, rows
from tools.models.plans import same_table, shapes

import posenc
from posenc.detect.explain.config.view import is_open

ALIKE = dict.fromkeys(("visual", "image", "video"), "vision") | {"speech": "audio"}
# Buffers of whole numbers, and of wavelengths.
INDEX = re.compile(r"position_ids|position_index|index_table|timescales")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "configs.md"
BLOCK = re.compile(r"(<!-- counted: configs -->\n).*?(<!-- end -->)", re.DOTALL)
LONGEST = 40_000  # characters of a dictionary in a file
RELATIVE = 3e-6  # of frequencies in float32
# Words of warnings that transformers reads other keys than the plan has.
SAID = (
    "text_config. posenc reads them as keys of type",
    "authors' code alone",
    "the file was written for other code",
)
STATES = ("equal", "partly", "said", "different", "refused", "not loaded", "no class")


class Outcome(NamedTuple):
    """What became of one row."""

    state: str
    told: tuple[str, ...] = ()


def outcome(config: dict[str, Any], facts: dict[str, Any]) -> Outcome:
    """The plan of a config beside the facts of its model."""
    plan = posenc.from_hf(copy.deepcopy(config), on_error="report")
    if "parts" in facts:  # of a tower that was made alone
        own = tuple(e for e in plan if part_of(e.layer) in facts["parts"])
        plan = plan.replace(layers=own)
    if "no class" in facts:
        return Outcome("no class")
    if "refused" in facts:
        return Outcome("not loaded", (facts["refused"],))
    if plan.errors:
        return Outcome("refused", plan.errors)
    left = tuple(note.text for note in plan.notes if is_open(note))
    if problems := compared(plan, facts, bool(left)):
        if all(text.startswith("not traced") for text in problems):
            return Outcome("partly", (*problems, *left))
        said = tuple(text for text in plan.warnings if any(words in text for words in SAID))
        if said and "by" not in facts:  # what other code reads is not what transformers does
            return Outcome("said", said)
        return Outcome("different", tuple(problems))
    return Outcome("partly", left) if left else Outcome("equal")


def compared(plan: posenc.Reading, facts: dict[str, Any], partly: bool) -> list[str]:
    """Every way in which the plan is not what the model does."""
    problems = turning(plan, facts, partly) + kinds(plan, facts)
    problems += tables(plan, facts, partly) + biases(plan, facts)
    return problems


# --- what turns -----------------------------------------------------------------------------------


def part_of(name: str) -> str:
    """The part of which the name of a module or an entry is: the text's has none."""
    found = PARTS.search(name.lower())
    return "" if found is None else ALIKE.get(found[0], found[0])


def part_in(row: dict[str, Any], facts: dict[str, Any]) -> str:
    """The part of a module; all of a model may be one."""
    return part_of(row["module"]) or part_of(facts["class"] if "Vision" in facts["class"] else "")


def rotary(plan: posenc.Reading) -> list[Any]:
    """The entries whose queries and keys turn, of the main attention."""
    return [e for e in plan if e.kind == "rotary" and not getattr(e, "attention", "")]


def turning(plan: posenc.Reading, facts: dict[str, Any], partly: bool) -> list[str]:
    """Frequencies, magnitude, cos and sin, pairing, width, and the layers that turn."""
    problems = []
    entries = rotary(plan)
    rows = facts["rotary"]
    used = {key for stack in facts["turned"].values() for key in stack}
    matched: dict[int, list[Any]] = {}
    for index, row in enumerate(rows):
        if "unknown" in row:
            problems.append(f"{row['module']}: not compared, {row['unknown']}")
            continue
        alike = [e for e in entries if part_of(e.layer) == part_in(row, facts)]
        if partly and part_in(row, facts) and not alike:
            continue  # the plan says that this part is not in it
        named = [e for e in alike if e.layer.endswith(row["type"])]
        matched[index] = [e for e in named or alike if same_angles(e.spec, row, facts)]
        idle = bool(used) and not facts.get("ended") and str(index) not in used
        if not matched[index] and not (idle and not part_in(row, facts)):
            problems.append(f"no entry turns as {row['module']} {row['type']}: {shown(row, alike)}")
    for entry in entries:
        rivals = [row for row in rows if part_of(entry.layer) == part_in(row, facts)]
        if rivals and not any(entry in found for found in matched.values()):
            problems.append(f"{entry.layer} turns as no module does")
        if not rivals and not part_of(entry.layer) and not turned_otherwise(facts):
            problems.append(f"{entry.layer} turns, and no module of the model")
    if problems:
        return problems
    return layers(entries, facts, matched) + pairings(plan, facts)


def turned_otherwise(facts: dict[str, Any]) -> bool:
    """Whether layers turn by angles that no module holds."""
    return any("?" in stack for stack in facts["turned"].values())


def same_angles(spec: Any, row: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Whether a spec has the frequencies and the magnitude of a module, and its cos and sin."""
    positions, length = facts["positions"], facts["length"]
    short = max([p for p in positions if p < length], default=0) + 1
    fixed = spec.at(short) if spec.needs_length else spec
    if abs(fixed.attention_factor - row["factor"]) > 1e-6 * row["factor"]:
        return False
    if not near(posenc.frequencies(fixed), row["frequencies"]):
        # A module may hold the frequencies of several axes in an order of its own.
        several = len(spec.axes) > 1 and "beyond" not in row
        ours, theirs = np.sort(posenc.frequencies(fixed)), np.sort(row["frequencies"])
        return several and ours.size == theirs.size and near(ours, theirs)
    if "beyond" in row:
        if not spec.needs_length:
            return False
        if not near(posenc.frequencies(spec.at(max(positions) + 1)), row["beyond"]):
            return False
    if "cos" not in row:
        return True
    return all(
        same_values(spec, row, np.asarray(part), size)
        for part, size in (
            ([p for p in positions if p < length], short),
            ([p for p in positions if p >= length], max(positions) + 1),
        )
        if part
    )


def same_values(spec: Any, row: dict[str, Any], positions: Any, length: int) -> bool:
    """Whether cos and sin are those of the module, within what float32 angles allow it."""
    first = 0 if positions[0] == 0 else len(row["cos"]) - len(positions)
    given = (
        np.repeat(positions[:, None], len(spec.axes), axis=1) if len(spec.axes) > 1 else positions
    )
    extra = {"length": length} if spec.needs_length else {}
    fast = np.asarray(row["frequencies"], float)[None, :]
    allowed = 3e-6 + 1e-6 * np.abs(positions[:, None] * fast) * max(1.0, row["factor"])
    for ours, name in zip(posenc.cos_sin(spec, given, **extra), ("cos", "sin"), strict=True):
        theirs = row[name][first : first + len(positions)]
        if np.asarray(ours).shape != theirs.shape:
            return False
        if not (np.abs(np.asarray(ours, float) - theirs) <= allowed).all():
            return False
    return True


def near(one: Any, other: Any) -> bool:
    """Whether frequencies are equal within float32; pictures hold those of one axis."""
    one, other = np.asarray(one, float).ravel(), np.asarray(other, float).ravel()
    times = one.size // max(other.size, 1)
    if times not in (1, 2, 3) or times * other.size != one.size:
        return False
    forms = (np.tile(other, times), np.repeat(other, times))
    return any(np.allclose(one, form, rtol=RELATIVE, atol=1e-12) for form in forms)


def shown(row: dict[str, Any], entries: list[Any]) -> str:
    """The two sides in short."""
    said = [f"{row['frequencies'].size} pairs {row['frequencies'][:2]} x{row['factor']:.6g}"]
    for entry in entries:
        spec = entry.spec.at(8) if entry.spec.needs_length else entry.spec
        turns = np.asarray(posenc.frequencies(spec)).ravel()
        said.append(f"{entry.layer}: {turns.size} {turns[:2]} x{spec.attention_factor:.6g}")
    return "; ".join(said)


def layers(entries: list[Any], facts: dict[str, Any], matched: dict[int, list[Any]]) -> list[str]:
    """Whether the layers that turn are those of the plan, each by its own angles."""
    if facts.get("ended") and not facts["turned"]:
        return [f"not traced: {facts['ended']}"] if matched and entries else []
    problems = []
    stacks = [stack for stack in facts["turned"] if not part_of(stack)]
    every = set(range(facts.get("layers", 0))) if len(stacks) == 1 else set()
    for stack in stacks:
        found = facts["turned"][stack]
        own = [e for e in entries if not part_of(e.layer)]
        side = next((s for s in ("encoder", "decoder") if s in stack), "")
        own = [e for e in own if side and e.layer.startswith(side)] or own
        wanted = {layer for numbers in found.values() for layer in numbers}
        got = set()
        for entry in own:
            got |= (every or wanted) if entry.indices is None else set(entry.indices)
        if not facts.get("ended") and got != wanted:
            problems.append(f"{stack}: turn {spans(wanted)}, in the plan {spans(got)}")
        for key, numbers in found.items():
            if key == "?":
                continue
            for number in numbers:
                here = [e for e in own if e.indices is None or number in e.indices]
                if not any(e in matched.get(int(key), ()) for e in here):
                    problems.append(f"{stack}{number} turns otherwise than in the plan")
                    break
    return problems


def spans(numbers: set[int]) -> str:
    """Numbers in short."""
    return f"{len(numbers)} layers {sorted(numbers)[:8]}"


def pairings(plan: posenc.Reading, facts: dict[str, Any]) -> list[str]:
    """Whether functions that turn pair the channels, and as many, as some attention of the plan."""
    own = [e.spec for e in plan if e.kind == "rotary" and not part_of(e.layer)]
    problems = []
    for name, found in facts["functions"].items():
        if not found["exact"] or "vision" in name:
            continue
        if own and not any(
            spec.pairing.order == found["pairing"] and spec.dim in (found["width"], 1)
            for spec in own
        ):
            told = {(spec.pairing.order, spec.dim) for spec in own}
            problems.append(f"{name}: {found['pairing']} {found['width']}, in the plan {told}")
    return problems


def kinds(plan: posenc.Reading, facts: dict[str, Any]) -> list[str]:
    """Whether entries that are called as types of layers are in the layers of that type."""
    types = facts.get("types") or []
    problems = []
    for entry in plan:
        name = entry.layer.rpartition(".")[2].partition(",")[0]
        own = () if name not in types or part_of(entry.layer) else entry.indices or ()
        if any(i >= len(types) or types[i] != name for i in own):
            problems.append(f"{entry.layer} is in layers of other types")
    return problems


# --- what is added --------------------------------------------------------------------------------


def tables(plan: posenc.Reading, facts: dict[str, Any], partly: bool) -> list[str]:
    """Whether tables have the shapes of the model's, and every table of it has an entry."""
    held = {n: tuple(s) for n, s in facts.get("tables", {}).items() if not INDEX.search(n)}
    problems, explained = [], set()
    for entry in plan:
        if entry.spec is None or entry.kind == "rotary":
            continue
        wanted = shapes(entry.spec)
        for shape in wanted:
            forms = (shape, (len(wanted), *shape))
            found = {n for n, s in held.items() if any(same_table(s, form) for form in forms)}
            explained |= found
            own = part_of(entry.layer)
            if not found and any(not own or part_of(name) in ("", own) for name in held):
                problems.append(f"{entry.layer}: no table of shape {shape}, {held}")
        dim = getattr(entry.spec, "dim", None)
        explained |= {n for n, s in held.items() if not wanted and dim in s}
    left = {n: s for n, s in held.items() if n not in explained and not re.search("embed_pos", n)}
    if left and not partly:
        problems.append(f"tables without an entry: {left}")
    return problems


def biases(plan: posenc.Reading, facts: dict[str, Any]) -> list[str]:
    """Whether slopes and buckets are those of the model."""
    problems = []
    if "slopes" in facts:
        own = [e.spec for e in plan if isinstance(e.spec, posenc.ALiBi)]
        if not own:
            problems.append("no ALiBi in the plan")
        for spec in own:
            lines = np.asarray(posenc.bias(spec, 4, 4))
            if not np.allclose(lines[:, -1, -1] - lines[:, -1, -2], facts["slopes"], rtol=1e-6):
                problems.append("other slopes")
    for stack, found in facts.get("buckets", {}).items():
        wanted = np.asarray(found["of"])
        far = len(wanted) // 2
        own = [e.spec for e in plan if isinstance(e.spec, posenc.T5)]
        rel = np.arange(-far, far + 1)
        if not any(s.heads == found["heads"] and (s.bucket(rel) == wanted).all() for s in own):
            problems.append(f"{stack}: other buckets")
    return problems


# --- rows -----------------------------------------------------------------------------------------

# Keys of published files that say nothing of positions, shapes and kinds of layers.
SILENT = re.compile(
    r"token|dropout|drop_path|_eps$|epsilon|norm|initializ|label|quantiz|dtype|use_cache|auto_map"
    r"|_name_or_path|transformers_version|expert|router|topk|aux|activation|hidden_act|act_fn"
    r"|intermediate|ffn|tie_word|task|return_|output_|beam|penalty|do_sample|temperature$|top_[kp]$"
    r"|num_return|min_length|max_length|early|prefix|bad_words|pretraining_tp|gradient"
    r"|init_|_init|scoring|loss|mask_|ctc|classifier|language$|xvector|tdnn|pruned|torchscript"
    r"|use_bfloat16|finetun|problem_type|_attn_implementation|summary|logit|decoder_start|moe"
)


def reduced(config: dict[str, Any]) -> dict[str, Any]:
    """The config without keys that say nothing of positions, as far as the plan stays the same."""

    def without(data: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in data.items() if not SILENT.search(k) or k == "model_type"}
        return {k: without(v) if isinstance(v, dict) else v for k, v in kept.items()}

    small = without(config)
    same = read(small) == read(config)
    return small if same else config


def read(config: dict[str, Any]) -> Any:
    """What a plan says, without the notes."""
    plan = posenc.from_hf(copy.deepcopy(config), on_error="report")
    return plan.layers, plan.errors, sum(map(is_open, plan.notes))


def dictionaries(text: str) -> Iterator[dict[str, Any]]:
    """Configs in a file: the JSON itself, or what is between braces around a model_type."""
    try:
        yield from inside(json.loads(text))
    except ValueError:
        for place in re.finditer(r"[\"']model_type[\"'] *:", text):
            start, depth = place.start(), 0
            while start > 0 and (text[start] != "{" or depth):
                depth += {"}": 1, "{": -1}.get(text[start], 0)
                start -= 1
            for end in (i + 1 for i, c in enumerate(text[start:], start) if c == "}"):
                found = parsed(text[start:end])
                if found is not None:
                    yield from inside(found)
                    break
                if end - start > LONGEST:
                    break


def inside(data: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The outermost dictionaries that name a type."""
    if isinstance(data, dict) and isinstance(data.get("model_type"), str):
        yield data
    elif isinstance(data, (dict, list)) and depth < 4:
        for value in data.values() if isinstance(data, dict) else data:
            yield from inside(value, depth + 1)


def parsed(text: str) -> Any:
    """A dictionary of JSON or of Python, or None."""
    for read_ in (json.loads, ast.literal_eval):
        try:
            return read_(text)
        except (ValueError, SyntaxError):
            continue
    return None


def digest(config: dict[str, Any]) -> str:
    """The id of a row: of the whole dictionary, as it was published."""
    return hashlib.sha1(json.dumps(config, sort_keys=True).encode()).hexdigest()[:10]


def reopened(row: dict[str, Any], snapshots: Path) -> str:
    """Why a row cannot be read again from the snapshot of its repository; empty if it can."""
    store = snapshots / row["repository"].replace("/", "+", 1) / "repo"
    name = f"{row['commit']}:{row['path']}"
    found = subprocess.run(
        ["git", "--git-dir", str(store), "cat-file", "blob", name],
        capture_output=True,
        check=False,
    )
    if found.returncode:
        return f"no {name}"
    for config in dictionaries(found.stdout.decode("utf-8", "replace")):
        if digest(config) == row["id"]:
            kept = json.loads(json.dumps(row["config"]))
            return "" if within(kept, config) else "the row has keys that the file has not"
    return "no dictionary of that digest"


def within(small: Any, whole: Any) -> bool:
    """Whether every key of a reduced config is that of the whole."""
    if not isinstance(small, dict):
        return bool(small == whole)
    return isinstance(whole, dict) and all(
        key in whole and within(value, whole[key]) for key, value in small.items()
    )


# --- counts ---------------------------------------------------------------------------------------


def outcomes() -> list[tuple[dict[str, Any], Outcome]]:
    """Every row, and what became of it: beside other code where transformers has no class."""
    kept, other = golden(), models()
    kept |= {key: value for key, value in other.items() if "no class" in kept.get(key, {})}
    return [(row, outcome(row["config"], kept[row["id"]])) for row in rows()]


def second_opinions() -> dict[str, Outcome]:
    """The rows of which transformers reads other keys, beside the code that reads theirs."""
    configs, kept = {row["id"]: row["config"] for row in rows()}, golden()
    return {
        key: outcome(configs[key], value)
        for key, value in models().items()
        if key in configs and "no class" not in kept[key]
    }


def dialect(config: dict[str, Any]) -> str:
    """Of which version of transformers the rotary parameters are spelled."""
    text = json.dumps(config)
    if '"rope_parameters": {' in text:
        return "5"
    return "4" if re.search(r"rope_theta|rope_scaling|rotary|rope", text) else "neither"


def _package(told: str) -> str:
    """Whose code facts are by."""
    name, number = told.split(",", maxsplit=1)[0].split(" ")[:2]
    return f"by {name} {number}" if name in ("vLLM", "transformers") else "by their authors' code"


def page() -> str:
    """The counts, as the table of docs/configs.md."""
    found = outcomes()
    lines = [
        "| rows | models | types | " + " | ".join(STATES) + " |",
        "|---" * (3 + len(STATES)) + "|",
    ]
    for kind in dict.fromkeys(row["kind"] for row, _ in found):
        own = [(row, result) for row, result in found if row["kind"] == kind]
        counts = Counter(result.state for _, result in own)
        types = {row["config"]["model_type"] for row, _ in own}
        names = {row["model"] for row, _ in own}
        cells = [f"{len(own)} {kind}", len(names), len(types), *(counts[s] for s in STATES)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    spelled = Counter(dialect(row["config"]) for row, _ in found)
    told = ", ".join(
        f"{n} in that of version {name}" for name, n in spelled.items() if name != "neither"
    )
    lines += ["", f"Of the rows {told}; {spelled['neither']} say nothing rotary."]
    kept, other = golden(), models()
    lacking = [row["id"] for row, _ in found if "no class" in kept[row["id"]]]
    by = Counter(_package(other[key]["by"]) for key in lacking if key in other)
    held = ", ".join(f"{n} {name}" for name, n in sorted(by.items()))
    told = (
        f"{len(lacking)} rows have no class in transformers. {sum(by.values())} of them are held "
        f"against other code: {held}. The layers that turn are those that hold a rotary module "
        "there, as no forward pass is traced."
    )
    said = [row["id"] for row, result in found if result.state == "said"]
    second = second_opinions()
    equal = sum(key in second and second[key].state == "equal" for key in said)
    told += f" Of the {len(said)} rows *said*, {equal} are equal to the code that reads them."
    lines += ["", told]
    for row, result in found:
        if result.state == "no class":
            lines += ["", f"Not compared: {row['model']} (`{row['config']['model_type']}`)."]
    refused = [(row, result) for row, result in found if result.state == "refused"]
    if refused:
        lines += ["", "Refused:", ""]
    for row, result in refused:
        lines.append(f"- {row['model']} (`{row['config']['model_type']}`): {result.told[0]}")
    return "\n".join(lines)


def written() -> str:
    """docs/configs.md with the counts of today."""
    text = PAGE.read_text(encoding="utf-8")
    return BLOCK.sub(lambda m: m[1] + page() + "\n" + m[2], text)


def main() -> int:
    """Show, write or read again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--reopen", metavar="FOLDER", type=Path, help="snapshots of repositories")
    options = parser.parse_args()
    if options.reopen:
        failed = [(row, why) for row in rows() if (why := reopened(row, options.reopen))]
        for row, why in failed:
            print(row["id"], row["repository"], row["path"], why)
        print(f"{len(rows()) - len(failed)} of {len(rows())} rows were read again")
        return bool(failed)
    if options.write:
        PAGE.write_text(written(), encoding="utf-8")
        return 0
    for row, result in outcomes():
        if result.state not in ("equal", "no class"):
            print(row["id"], row["model"], result.state, "; ".join(result.told)[:300])
    print(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
