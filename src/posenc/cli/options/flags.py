"""Errors of the library in the words of the command: flags where Python has arguments.

A verb that lacks an argument says `params=`; who typed a command is told `--params`. Which flags
there are is asked of the command itself.
"""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path

import click

from posenc._core.errors import closest
from posenc._core.foreign import hub_advice, kind_of, meanings, meant, verb_called
from posenc._core.foreign_names import APART, NAMES, PLOTS
from posenc.cli.options.common import looks_like_a_file

# What people call the command that reads, or writes, the file behind it.
READING = [
    "show",
    "find",
    "info",
    "view",
    "print",
    "cat",
    "load",
    "open",
    "validate",
    "verify",
    "lint",
    "test",
    "summary",
    "inspect",
    "read",
    "describe",
    "analyze",
    "analyse",
    "check_config",
]
WRITING = ("export", "save", "write")
# Options of other programs whose words are not those of arguments.
OPTION_WORDS = {
    "dim": "d",
    "positions": "n num rows count max_len length len",
    "count": "n num number questions",
    "output": "o out save file outfile",
    "json": "as_json format_json",
    "force": "overwrite yes f",
    "encoding": "type name encoding_type",
    "rule": "method strategy",
    "table": "weights input",
    "tensor": "key array",
}

# Options of other programs for what stands by place here.
PLACED = "text file input config model source path folder vector array target topic word sentence"

PAIR = (
    "One file holds what belongs together, such as cosines and sines: np.savez('pair.npz', "
    "cos=np.load('cos.npy'), sin=np.load('sin.npy')), then posenc identify pair.npz."
)
# By commands: options, and first words, that those of other programs have, and what to write. An
# empty name stands for every command; WORD is the first argument, where there is one.
INSTEAD: dict[str, dict[str, str]] = {
    "diff": {
        "atol rtol tol tolerance eps threshold precision": "Rounding is allowed for; what differs "
        "by more is shown with its size, which posenc.diff(a, b).rows has in Python.",
        "against reference ref with other to": "Both sides stand by place: posenc diff WORD B, "
        "where B may be hf:FOLDER, the class in transformers, or \"RoPE(64, pairing='half')\".",
        "engine engines backend backends framework": "A side may be an engine: "
        "posenc diff WORD engine:vllm, or hf:FOLDER for transformers.",
        "config configs model models a b": "Both sides stand by place, such as "
        "posenc diff config.json hf:FOLDER, or engine:vllm.",
        "format": "Write --markdown or --json.",
        "function func name": "Code is a side: posenc diff WORD FILE.py:NAME.",
        "dim encoding preset spec pairing base theta rope_theta heads": "A side may be an "
        "encoding: posenc diff WORD \"RoPE(64, pairing='half')\", or preset:llama3:128.",
    },
    "check": {
        "function func fn name attr symbol entry object class": "It stands behind a colon: "
        "posenc check WORD:NAME.",
        "against reference ref expected encoding preset type": "Write --spec, such as "
        "--spec 'Sinusoidal(64)' or --spec \"RoPE(64, pairing='half')\".",
        "fix repair": "No code is changed: posenc doctor MODEL FILE.py:NAME says what differs.",
        "config": "posenc diff WORD CONFIG holds code against the config of a model.",
        "atol rtol tol tolerance eps": "Each law allows for the rounding of its arithmetic.",
    },
    "infer": {
        "before after x y q q_rot input output inputs outputs positions": "Recorded arrays are one "
        "file: np.savez('recorded.npz', input=x, output=y, positions=p), then "
        "posenc infer recorded.npz.",
        "function func fn name attr": "It stands behind a colon: posenc infer WORD:NAME.",
        "cos sin": PAIR,
    },
    "extend": {
        "in_place inplace i": "Write -o WORD --force, which replaces that file.",
        "scaling rope_scaling type yarn ntk linear dynamic llama3 longrope": "Write --rule yarn, "
        "or another rule of the table.",
        "original original_length native": "Write --trained LENGTH.",
        "engine engines backend backends framework for vllm sglang": "Each answer has a line for "
        "every engine of its tables: posenc extend WORD 131072.",
    },
    "locate": {
        "table input vector file": "VECTOR stands by place: posenc locate table.npy --row 5.",
    },
    "golden": {
        "positions length seq_len max_len n": "A golden file has positions near and far of its own "
        "choice; posenc.rotate(spec, x, positions=[…]) in Python has the numbers of others.",
        "check verify test compare diff": "posenc diff FILE SOURCE holds a golden file against "
        "a model, code or an engine.",
        "write create make new generate save build dump": "SOURCE stands alone: "
        "posenc golden config.json -o model.golden.json.",
        "dim encoding preset spec heads theta": "SOURCE says it: "
        "posenc golden \"RoPE(64, pairing='half')\", or preset:llama3:128.",
    },
    "identify": {"before cos sin": PAIR},
    "convert": {
        "target convention style half interleaved neox gptj": "Write --pairing half or "
        "--pairing interleaved.",
    },
    "trace": {
        "before code port against": "One model is traced; code beside it is compared by "
        "posenc diff WORD FILE.py:NAME.",
        "prompt text input inputs ids input_ids": "Random tokens run, --tokens says how many; "
        'posenc.torch.trace(model, {"input_ids": ids}) in Python runs yours.',
    },
    "explain": {"against with other": "posenc diff WORD B compares two models."},
    "": {
        "quiet q silent s": "Write > /dev/null: the exit code says it as well.",
        "verbose v vv debug trace": "POSENC_DEBUG=1 shows the traceback of an error.",
        "import plugin plugins package load register": "A package names its encodings in the entry "
        "points posenc.encodings; posenc check MODULE:NAME needs none.",
        "format fmt": "With --json it prints JSON; the ending of -o OUT is the format of a file.",
        "device dtype gpu cuda": "The command computes on the CPU; functions take dtype, device.",
        "show display open view stdout print": "The terminal shows the answer, without -o FILE.",
        "install_completion show_completion completion completions": "In bash, this turns it on: "
        'eval "$(_POSENC_COMPLETE=bash_source posenc)".',
        "color colour no_color": "NO_COLOR=1 in the environment turns colours off.",
    },
}

# By kinds: what shows an encoding.
DRAWN = {
    "table": "table",
    "rotary": "plot rotation",
    "bias": "plot bias",
    "relative": "plot attention",
}
CODE = ("check", "infer", "trace")  # commands whose argument is FILE.py:NAME
MOST_OPTIONS = 12  # that a line lists
# What is written by naming its ending.
FORMATS = ("csv", "npy", "npz", "safetensors", "png", "svg", "pdf")

# Arguments that a command takes under another name, or by several flags.
ALIASES = {
    "heads": "--heads, --kv-heads",
    "rope": "--rotary, --stored",
    "names": "--name",
    "name": "--tensor",
    "tables": "--tensor",
    "odd": "--odd",
}
FUNCTIONS = "from_hf|from_gguf|from_json|to_hf|explain|infer"
# What only a program can do.
ALTERNATIVE = re.compile(r",? or fix it: `?spec\.at\(length\)`?")
PATTERNS = re.compile(r"names=\{[^}]*\}(?: or \{[^}]*\})*")
VALUE = r"(?:(['\"])([\w.]+)\1|([\d.]+\b))?"
# A spec is shown as Python writes it.
SPEC = r"\b[A-Z]\w*\((?:[^()]|\([^()]*\))*\)"
ARGUMENT = re.compile(rf"{SPEC}|`?(?<![\w.(\[{{-])(\w+)={VALUE}`?(?=[\s,;:.)]|$)")


class SpecTextError(click.UsageError):
    """A mistake in a spec that was written as Python writes it, whose fields are no flags."""


def flags_of(command: click.Command) -> dict[str, str]:
    """The options of a command, by their names and by those of its parameters."""
    flags: dict[str, str] = {}
    for option in command.params:
        if isinstance(option, click.Option):
            flag = max(getattr(option, "shown", option.opts), key=len)
            flags[flag.lstrip("-").replace("-", "_")] = flags[str(option.name)] = flag
    return flags


def command_advice(name: str, reader: str = "", *files: str) -> str:
    """What to write for a command that does not exist; nothing where nobody knows.

    `reader` is the command for the files behind it, where there are some.
    """
    word = name.lower().replace("-", "_")
    of_files = {reader: READING, "convert-config": WRITING} if reader else {}
    calls = (" ".join([command, *files]) for command, words in of_files.items() if word in words)
    if command := next(calls, "") or verb_called(name):
        return f"Write `posenc {command}`."
    return encoding_advice(name) or meant(name, (*APART, *NAMES)).replace("Here it", "In Python it")


def encoding_advice(text: str) -> str:
    """What to write for an encoding in the place of a command or picture; nothing for others."""
    from posenc.registry import spelled

    name = spelled(text.partition("(")[0].removeprefix("posenc."))
    if not name:
        about = hub_advice(text)
        return about if about.startswith(f"{text} is") else ""
    option = f"--spec {shlex.quote(text)}" if "(" in text else f"--encoding {name}"
    rows = {"rotary": "table", "bias": "bias"}.get(kind_of(name), "")
    others = f"; `posenc plot {rows} {option} --numbers rows.csv` writes its numbers" * bool(rows)
    drawn = DRAWN.get(kind_of(name), "plot")
    return f"{name} is an encoding: write `posenc {drawn} {option}`{others}."


def picture_advice(text: str) -> str:
    """What to write for a picture that does not exist; nothing where nobody knows."""
    named = encoding_advice(text).replace("posenc table", "posenc plot table")
    shown = re.sub(r".*posenc\.plot\.(\w+).*", r"Write posenc plot \1.", meant(text, PLOTS))
    shown *= shown.removeprefix("Write ").rstrip(".") not in named
    # A word of its own, such as decay, may mean what a picture shows.
    return f"{named} {shown}".strip() if text.islower() or not named else named


def instead(name: str, option: str, word: str = "") -> str:
    """What a command has for an option or first word of other programs; nothing for others."""
    rows = {**INSTEAD.get(name, {}), **INSTEAD[""]}
    text = next((todo for words, todo in rows.items() if option in words.split()), "")
    return re.sub(r"\bWORD\b", lambda _: word or "FILE", text)


def usage_advice(error: click.UsageError, command: click.Command, word: str = "") -> str:
    """What to write for an option or word that a command lacks, instead of click's guess.

    `word` is the first argument of the command. What nobody knows gets the first example of the
    help of the command or its group.
    """
    text, path = error.format_message(), "posenc"
    if error.ctx is not None:
        path = f"posenc {error.ctx.command_path.partition(' ')[2]}".strip()
    group = error.ctx.parent.command if error.ctx is not None and error.ctx.parent else command
    texts = f"{command.epilog}\n{command.help}\n{group.help}"
    line = re.search(rf"^ +({re.escape(path)}\b.*)$", texts, re.MULTILINE)
    such, name = f" Such as: {line[1]}" if line else "", path.rpartition(" ")[2]
    if isinstance(error, click.NoSuchOption):
        option = error.option_name.lstrip("-").replace("-", "_").lower()
        todo = instead(name, option, word) or _of_option(option, command, path)
        if isinstance(command, click.Group):
            is_there = option in command.list_commands(click.Context(command))
            todo = f"Write {path} {option}." if is_there else command_advice(option) or todo
        return f"No such option '{error.option_name}'. {todo or _listed(command, option) + such}"
    if not text.startswith("Got unexpected extra argument"):
        return text + such * isinstance(error, click.MissingParameter)
    # A name so short that the table knows it can be looked for among files.
    if (todo := instead(name, word)) and not Path(word).exists():
        return f"{name} has no subcommand {word!r}. {todo}"
    flags = flags_of(command)
    if name in CODE and word.endswith(".py") and (extra := re.search(r"\(([A-Za-z_]\w*)\)", text)):
        return f"{text}. Code is named behind a colon: {path} {word}:{extra[1]}"
    if named := [flags[name] for name in ("encoding", "preset", "spec") if name in flags]:
        example = word if looks_like_a_file(word) else "'Sinusoidal(512)'"
        such = f", such as --spec {example}" if "--spec" in named else ""
        such = f" An encoding is named by {' or '.join(named)}{such}."
        such += f" B is named by {flags['b_encoding']}." if "b_encoding" in flags else ""
    todo = encoding_advice(word) if named else instead(name, "before", word)
    return f"{text}. {todo or such.lstrip()}"


def _of_option(name: str, command: click.Command, path: str) -> str:
    """What to write for an option that a command lacks; nothing where nobody knows."""
    flags = flags_of(command)
    targets = [to for to, words in OPTION_WORDS.items() if name in words.split()]
    targets += [name, *sorted(meanings(name)[0], key=("positions", "q_positions").__contains__)]
    places = {p.name: p for p in command.params if isinstance(p, click.Argument)}
    spelling = flags.get(next((to for to in targets if to in flags or to in places), ""), "")
    call = " ".join(p.metavar or str(p.name).upper() for p in places.values())
    spellings = {f.lstrip("-").replace("-", "_") for f in flags.values()}
    near = closest(name, spellings, cutoff=0.75) or ""
    longer = {"length"} & {*targets}
    advice = {
        f"Write {spelling}.": spelling,
        f"It stands by place: {path} {call}.": {*targets} & {*places}
        or (len(places) == 1 and name in PLACED.split()),
        f"Write {flags.get('output')} FILE.{name}.": name in FORMATS and "output" in flags,
        "The answer goes to standard output: write > FILE.": "output" in targets,
        "A longer context is planned by posenc extend CONFIG LENGTH.": longer
        and "config" in places,
        f"Did you mean '{flags.get(near)}'?": near,
        "It takes words: `posenc list bias`, `posenc list rotary llama`.": path.endswith(" list"),
    }
    return next((text for text, holds in advice.items() if holds), "")


def _listed(command: click.Command, name: str) -> str:
    """The options of a command, the nearest by their letters where these are many."""
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    flags = [max(getattr(p, "shown", p.opts), key=len) for p in options]
    if len(flags) <= MOST_OPTIONS:
        return f"Its options are {', '.join(flags)}."
    near = difflib.get_close_matches(f"--{name}", flags, n=MOST_OPTIONS // 2, cutoff=0.3)
    return f"The nearest are {', '.join(near or flags[:6])}; --help lists all."


def in_flags(message: str, command: click.Command) -> str:
    """A message with the flags of a command in place of arguments of functions."""
    flags = flags_of(command)
    for name, several in ALIASES.items():
        if there := [flag for flag in several.split(", ") if flag in flags.values()]:
            flags[name] = ", ".join(there)

    def fields(match: re.Match[str]) -> str:
        return ", ".join(flags.get(name, name) for name in re.findall(r"(\w+)=", match[1]))

    def patterns(match: re.Match[str]) -> str:
        sets, flag = re.findall(r"\{([^}]*)\}", match[0]), flags.get("names", "names")
        roles = [re.findall(r"\"(\w+)\": (\w+)", each) for each in sets]
        return " or ".join(" ".join(f"{flag} {k}={v}" for k, v in each) for each in roles)

    def argument(match: re.Match[str]) -> str:
        flag, value = flags.get(match[1]), match[3] or match[4]
        return " ".join(filter(None, (flag, value))) if flag else match[0]

    # `pairing` is a field too, further on.
    message = re.sub(rf"(^|: )(?:{FUNCTIONS}): |^pairing: ", r"\1", message)
    message = re.sub(r"`?(?:layout=)?Projections\(([\w=, ]*)\)`?", fields, message)
    message = PATTERNS.sub(patterns, message)
    message = re.sub(r"`(\w+)`", lambda m: flags.get(m[1], m[0]), message)
    return ARGUMENT.sub(argument, ALTERNATIVE.sub("", message))
