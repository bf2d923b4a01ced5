"""What one tree says: run by `tools/same.py`, in a process of its own for each kind.

    python same_kinds.py TREE INPUTS OUT TASK EVERY

TREE is what posenc is imported from, INPUTS a folder that `collect` filled from one of the two
trees, so that both are asked the same, OUT the file that `same_store.Store` writes; each EVERY-th
thing is asked. Only public names of posenc are used, so that files may move inside the package.
"""

from __future__ import annotations

import dataclasses
import doctest
import functools
import importlib
import json
import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from same_commands import commands, session
from same_numbers import numbers, specs
from same_store import SnapshotError, Store, entry, ran

import posenc


class Asked:
    """What the two trees are asked."""

    def __init__(self, tree: Path, inputs: Path, every: int = 1) -> None:
        self.tree = tree
        self.every = every  # only each so many-th thing is asked
        self.inputs = inputs
        self.cases: list[dict[str, Any]] = pickle.loads((inputs / "cases.pickle").read_bytes())
        self.states: list[dict[str, str]] = json.loads((inputs / "states.json").read_text("utf-8"))

    def lines(self, name: str) -> list[Any]:
        """The rows of a JSON file with a line for each."""
        path = self.inputs / name
        return [json.loads(one) for one in path.read_text("utf-8").splitlines()[:: self.every]]

    def specs(self) -> list[tuple[str, Any]]:
        """A small one of every encoding."""
        return list(specs())[:: self.every]

    def command(self) -> Callable[[list[str]], str]:
        """The command `posenc` in this process."""
        module, function = entry(self.tree)
        run = getattr(importlib.import_module(module), function)
        return lambda words: ran(run, words)


# --- configs --------------------------------------------------------------------------------------


def configs(asked: Asked, store: Store) -> None:
    """Plans, notes and sources of the corpus, in both dialects of transformers and as GGUF."""
    command = asked.command()
    rows = {row["id"]: row["config"] for row in asked.lines("rows.jsonl")}
    rows |= {row["name"]: row["config"] for row in asked.lines("published.jsonl")}
    for name, config in rows.items():
        store.attempt(f"{name}/plan", lambda c=config: _told(posenc.from_hf(c, on_error="report")))
        store.attempt(f"{name}/strict", lambda c=config: repr(posenc.from_hf(c)))
        for dialect in ("hf4", "hf5"):
            made = store.attempt(f"{name}/{dialect}", lambda c=config, d=dialect: _written(c, d))
            if isinstance(made, dict):
                again = json.loads(made["config"])
                store.attempt(
                    f"{name}/{dialect}/plan",
                    lambda c=again: _told(posenc.from_hf(c, on_error="report")),
                )
    folder = Path("model")
    folder.mkdir()
    for name, config in rows.items():
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        store.put(f"{name}/posenc explain", command(["explain", "model"]))
    for path in sorted((asked.inputs / "gguf").glob("*.gguf"))[:: asked.every]:
        store.attempt(
            f"{path.stem}/plan", lambda p=path: _told(posenc.from_gguf(p, on_error="report"))
        )
        store.put(f"{path.stem}/posenc explain", command(["explain", str(path)]))
    for name in posenc.presets.plan_names()[:: asked.every]:
        store.attempt(f"plan:{name}", lambda n=name: _told(posenc.presets.plan(n)))
        store.put(f"posenc explain --plan {name}", command(["explain", "--plan", name]))
    for name in posenc.presets.names()[:: asked.every]:
        store.put(f"preset:{name}/row", repr(posenc.presets.row(name)))
        for width in (1, 8, 12, 64, 128):
            store.attempt(
                f"preset:{name}:{width}", lambda n=name, w=width: _told(posenc.preset(n, w))
            )


def _told(value: Any) -> str:
    return str(posenc.to_json(value, indent=1))


def _written(config: Any, dialect: Any) -> dict[str, str]:
    made = posenc.to_hf(config, dialect)
    return {"config": json.dumps(made.config, indent=1), "lost": "\n".join(made.lost)}


# --- golden files ---------------------------------------------------------------------------------


def golden(asked: Asked, store: Store) -> None:
    """Golden files of the corpus, of the plans, and of every encoding, as JSON and safetensors."""
    command = asked.command()
    rows = {row["id"]: row["config"] for row in asked.lines("rows.jsonl")[::4]}
    rows |= {row["name"]: row["config"] for row in asked.lines("published.jsonl")[::4]}
    sources: dict[str, Any] = dict(rows)
    sources |= {
        f"plan:{name}": posenc.presets.plan(name)
        for name in posenc.presets.plan_names()[:: asked.every]
    }
    sources |= {f"example {name}": spec for name, spec in asked.specs()}
    for number, (name, source) in enumerate(sources.items()):
        made = store.attempt(f"{name}/facts", lambda s=source: _contract(s))
        if isinstance(made, dict) and number % 5 == 0:
            path = Path("model.golden.json")
            posenc.golden(source).save(path, format="both")
            for file in (path, path.with_suffix(".safetensors")):
                store.put(f"{name}/{file.name}", file.read_bytes())
                file.unlink()
    for name in list(posenc.presets.plan_names())[:4]:
        store.put(f"posenc golden plan:{name}", command(["golden", f"plan:{name}"]))


def _contract(source: Any) -> dict[str, Any]:
    made = posenc.golden(source)
    return {"json": json.dumps(made.to_dict(), indent=0), "fingerprint": made.fingerprint}


# --- the explorer ---------------------------------------------------------------------------------


def frames(asked: Asked, store: Store) -> None:
    """Frames of every view: the header as a text, and each of its arrays."""
    from posenc.explore import frame, unpack

    for number, state in enumerate(asked.states[:: asked.every]):
        name = f"{number} {'&'.join(f'{k}={v}' for k, v in state.items())[:80]}"
        store.attempt(name, lambda s=state: _frame(unpack(frame(s))))


def _frame(message: Any) -> dict[str, Any]:
    text = json.dumps(message.header, indent=1, ensure_ascii=True)
    return {"header": text, **dict(message.arrays)}


def states(views: list[str], encodings: list[str]) -> Iterator[dict[str, str]]:
    """States of the explorer: every view, every encoding, drawn settings, and wrong ones."""
    draw = random.Random(20)
    yield from ({"v": view} for view in views)
    yield from ({"v": view, "theme": "dark", "w": "640", "h": "400"} for view in views)
    for name in encodings:
        yield from ({"enc": name, "v": view} for view in draw.sample(views, 3))
    settings = {
        "enc": ["sinusoidal", "learned", "rope", "alibi", "t5", "preset:llama3"],
        "d": ["2", "15", "16", "32", "128", "5000"],
        "n": ["10000", "500", "nan"],
        "L": ["1", "64", "128", "45000", "-3"],
        "s": ["0", "70"],
        "p": ["0", "40", "100", "150", "1e400"],
        "j": ["2", "9", "21", "127"],
        "heads": ["1", "8"],
        "off": ["4", "10"],
        "Lt": ["4096", "64"],
        "pairing": ["half", "interleaved"],
        "order": ["interleaved", "sin_cos", "sideways"],
        "b.enc": ["learned", "rope", "sinusoidal"],
        "b.d": ["8", "twelve"],
        "text": ["the cat saw the dog", "  "],
        "find": ["0.488814 @ 1088", "0.5", "2 @ 500"],
        "tour": ["1", "99"],
        "reveal": ["1"],
    }
    for _ in range(200):
        chosen = draw.sample(sorted(settings), draw.randint(1, 6))
        yield {"v": draw.choice(views)} | {key: draw.choice(settings[key]) for key in chosen}


# --- pictures -------------------------------------------------------------------------------------


def pictures(asked: Asked, store: Store) -> None:
    """Every picture of every encoding that it shows, as PNG and SVG, and what its data say."""
    from posenc import plot

    names = [name for name in plot.__all__ if name != "Picture"]
    given: dict[str, dict[str, Any]] = {"find": {"values": {3: "0.85"}}}
    small = posenc.Sinusoidal(8)
    rope = posenc.RoPE(16, pairing="half")
    themes: dict[str, tuple[Any, ...]] = {
        "table": (small,),
        "compare": ("table", small, small.replace(base=100)),
        "bias": (posenc.ALiBi(4),),
        "rotation": (rope,),
        "stretch": (rope,),
        "find": (posenc.Sinusoidal(16), {3: "0.85"}),
    }
    for name in names:
        draw = getattr(plot, name)
        for theme in ("light", "dark", "print"):
            arguments = themes.get(name, (small,))
            store.attempt(
                f"{name} {theme}", lambda d=draw, a=arguments, t=theme: _drawn(d, *a, theme=t)
            )
        if name == "compare":
            continue
        for title, spec in asked.specs():
            more = tuple(given.get(name, {}).values())
            if spec.shapes and "params" in draw.__code__.co_varnames:
                call = lambda d=draw, s=spec, m=more: _drawn(d, s, *m, params=posenc.init(s))  # noqa: E731
            else:
                call = lambda d=draw, s=spec, m=more: _drawn(d, s, *m)  # noqa: E731
            store.attempt(f"{name} of {title}", call)


def _drawn(draw: Callable[..., Any], *arguments: Any, **more: Any) -> dict[str, Any]:
    made = draw(*arguments, **more)
    return {
        "png": made.to_bytes("png"),
        "svg": made.to_bytes("svg").decode(),
        "words": f"{made.title}\n{made.description}\n{json.dumps(dict(made.parameters))}",
    }


# --- lessons and messages -------------------------------------------------------------------------


def lessons(asked: Asked, store: Store) -> None:
    """The pages of lessons, their questions, and the quiz."""
    learn = posenc.learn
    for topic in learn.topics()[:: asked.every]:
        store.put(f"{topic}/page", learn.page(topic))
        for name in learn.question_ids(topic):
            for seed in (0, 1):
                store.attempt(
                    f"{topic}/{name} {seed}",
                    lambda t=topic, n=name, s=seed: repr(learn.question(t, n, seed=s)),
                )
    store.put("tour", "\n".join(map(repr, learn.stops())))
    store.put("quiz page", learn.quiz_page())


PUBLIC = ("", "positions", "scaling", "presets", "learn", "plot", "explore", "testing", "torch")


def examples(asked: Asked, store: Store) -> None:
    """What the examples of the docstrings print, and the public names that there are."""
    for home in PUBLIC:
        names = getattr(importlib.import_module(f"posenc.{home}".rstrip(".")), "__all__", ())
        store.put(f"names of posenc.{home}".rstrip("."), "\n".join(sorted(names)))
    for name, steps in json.loads((asked.inputs / "examples.json").read_text("utf-8")).items():
        store.put(name, session(steps, {}, name))


def _docstrings() -> dict[str, list[str]]:
    """The examples of the docstrings of public names, by these names."""
    parser, found = doctest.DocTestParser(), {}
    for home in PUBLIC:
        package = importlib.import_module(f"posenc.{home}".rstrip("."))
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            steps = parser.get_examples(getattr(value, "__doc__", None) or "")
            if steps and not isinstance(value, type(sys)):
                found[f"{package.__name__}.{name}"] = [step.source for step in steps]
    return found


def errors(asked: Asked, store: Store) -> None:
    """What is said of wrong fields of every encoding and value, and of what people guess."""
    wrong = (-1, 0, 7, 1.5, float("nan"), "wrong", None, (), (1, -2), {"a": 1}, 10**12)
    for title, spec in asked.specs():
        cls = type(spec)
        fields = {f.name: getattr(spec, f.name) for f in dataclasses.fields(cls) if f.init}
        for field in fields:
            for value in wrong:
                call = f"{title}: {field}={value!r}"
                store.attempt(
                    call, lambda c=cls, f=fields, n=field, v=value: repr(c(**{**f, n: v}))
                )
        store.attempt(f"{title}: no such field", lambda c=cls: repr(c(widht=3)), (Exception,))
        store.attempt(f"{title}: nothing", lambda c=cls: repr(c()), (Exception,))
        for verb in ("table", "rotate", "cos_sin", "bias"):
            for thing in (None, "x", -1, 1.5, [[1, 2], [3]]):
                call = f"posenc.{verb}({title}, {thing!r})"
                function = getattr(posenc, verb)
                store.attempt(call, lambda f=function, s=spec, t=thing: f(s, t), (Exception,))
    command = asked.command()
    names = _guessed()
    lines = (asked.inputs / "guesses.tsv").read_text("utf-8").splitlines()
    calls = [line for line in lines if not line.startswith("#")]
    for number, line in enumerate(calls[:: asked.every]):
        call = line.split("\t")[1]
        if call.startswith("posenc "):
            import shlex

            store.put(f"guess {number} {call}", command(shlex.split(call)[1:]))
        else:
            store.attempt(
                f"guess {number} {call}", lambda c=call: _answer(eval(c, names())), (Exception,)
            )


def _guessed() -> Callable[[], dict[str, Any]]:
    import numpy as np
    import torch

    def names() -> dict[str, Any]:
        q = np.random.default_rng(0).standard_normal((2, 8, 10, 64), dtype=np.float32)
        rope = posenc.RoPE(64, pairing="half")
        cos, sin = posenc.cos_sin(rope, 10)
        given = {"np": np, "posenc": posenc, "torch": torch, "q": q, "k": q[:, :2], "x": q[0, 0]}
        given |= {"qt": torch.from_numpy(q), "cos": cos, "sin": sin, "rope": rope}
        return given | {"alibi": posenc.ALiBi(heads=8), "sinusoidal": posenc.Sinusoidal(64)}

    return names


def _answer(value: Any) -> Any:
    return (
        value if hasattr(value, "dtype") or isinstance(value, (tuple, list, dict)) else repr(value)
    )


# --- what both trees are asked --------------------------------------------------------------------


def collect(asked: Path, tree: Path) -> None:
    """Fill the folder of inputs from one tree: corpora, cases, states, GGUF files, guesses."""
    golden = tree / "tests" / "golden"
    for path in (golden / "configs" / "rows.jsonl", golden / "configs" / "published.jsonl"):
        (asked / path.name).write_bytes(path.read_bytes())
    [guesses] = (tree / "tests").rglob("guesses.tsv")
    (asked / "guesses.tsv").write_bytes(guesses.read_bytes())
    sys.path.insert(0, str(tree))
    cases = importlib.import_module("tests.cases").CASES
    (asked / "cases.pickle").write_bytes(pickle.dumps([_case(case) for case in cases]))
    from posenc.explore import frame, unpack

    views = [view["id"] for view in unpack(frame({})).header["views"]]
    encodings = [name.lower() for name, _ in specs()]
    encodings += [f"preset:{name}" for name in posenc.presets.names()]
    drawn = list(states(views, encodings))
    drawn += [stop.state for stop in posenc.learn.stops()]
    (asked / "states.json").write_text(json.dumps([dict(state) for state in drawn]))
    (asked / "examples.json").write_text(json.dumps(_docstrings()))
    (asked / "gguf").mkdir()
    headers = importlib.import_module("tests.detect.explain.test_gguf")
    import numpy as np

    for number, row in enumerate(
        json.loads(line) for line in (golden / "gguf" / "headers.jsonl").read_text().splitlines()
    ):
        keys = {key.replace(".", "__"): value for key, value in row["keys"].items() if value != []}
        tensors = {k: np.array(v, np.float32) for k, v in row.get("tensors", {}).items()}
        path = asked / "gguf" / f"{number} {row['architecture']}.gguf"
        headers.written(path, row["architecture"], tensors, words=5, **keys)


def _case(case: Any) -> dict[str, Any]:
    """A case as plain types: its spec as JSON, where it is asked, and what it learned."""
    made: dict[str, Any] = {"name": case.name, "json": posenc.to_json(case.spec)}
    for name in ("positions", "queries", "keys", "heads", "params"):
        value = getattr(case, name, None)
        made[name] = dict(value) if name == "params" and value is not None else value
    return made


def _numbers(asked: Asked, store: Store, library: str) -> None:
    numbers(asked.cases, store, library, asked.every)


KINDS: dict[str, Callable[[Asked, Store], None]] = {
    "configs": configs,
    "numbers-numpy": functools.partial(_numbers, library="numpy"),
    "numbers-torch": functools.partial(_numbers, library="torch"),
    "numbers-jax": functools.partial(_numbers, library="jax"),
    "frames": frames,
    "pictures": pictures,
    "golden": golden,
    "lessons": lessons,
    "errors": errors,
    "examples": examples,
}


def main() -> int:
    """Write down what a tree says of one task, or what both are asked."""
    tree, inputs, out = (Path(argument) for argument in sys.argv[1:4])
    task = sys.argv[4]
    package = Path(posenc.__file__)
    if not package.is_relative_to(tree / "src"):
        raise SnapshotError(f"posenc was imported from {package}, not from {tree}/src")
    if task == "inputs":
        collect(inputs, tree)
        return 0
    store = Store({str(tree): "TREE", str(Path.cwd()): "FOLDER", str(inputs): "INPUTS"})
    sys.path.remove(str(Path(__file__).resolve().parent))  # scripts of a page import their own
    if task.startswith("commands:"):
        commands(tree, inputs, task.partition(":")[2], store)
    else:
        KINDS[task](Asked(tree, inputs, int(sys.argv[5])), store)
    store.save(out)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("COLUMNS", "100")
    sys.exit(main())
