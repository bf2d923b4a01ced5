"""Errors of the library in the words of the command: flags where Python has arguments.

A verb that lacks an argument says `params=`; who typed a command is told `--params`. Which flags
there are is asked of the command itself.
"""

from __future__ import annotations

import re
import shlex

import click

from posenc._core.errors import closest
from posenc._core.foreign import kind_of, meanings

# What people call a command -> what to write.
COMMAND_WORDS = {
    "list": "ls presets preset encodings names models plans search find show info",
    "plot": "draw visualize visualise heatmap picture figure view",
    "explain": "config inspect read describe analyze analyse",
    "encode": "add embed apply",
    "check": "test verify validate",
    "convert": "permute to_hf",
    "explore": "serve ui gui web app",
    "golden": "reference snapshot inv_freq inv_freqs freqs frequencies",
    "diff": "compare",
    "pairing": "convention layout rope",
    "study": "train bench benchmark experiment",
    "doctor": "env report status versions",
    "table -o FILE.npy": "export save write",
    "--version": "version",
    "--help": "help usage man",
}
# Options of other programs whose words are not those of arguments.
OPTION_WORDS = {
    "positions": "n num rows count max_len length",
    "output": "o out save file outfile",
    "json": "as_json format_json",
    "force": "overwrite yes f",
    "encoding": "type name encoding_type",
    "rule": "method strategy",
    "table": "weights input",
    "tensor": "key array",
}

# By kinds: what shows an encoding.
DRAWN = {
    "table": "table",
    "rotary": "plot wavelengths",
    "bias": "plot bias",
    "relative": "plot attention",
}
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
FUNCTIONS = "from_hf|from_gguf|from_json|to_hf|infer_spec|detect_pairing"
# What only a program can do.
ALTERNATIVE = re.compile(r",? or fix it: `?spec\.at\(length\)`?")
PATTERNS = re.compile(r"names=\{[^}]*\}(?: or \{[^}]*\})*")
VALUE = r"(?:(['\"])([\w.]+)\1|([\d.]+\b))?"
# A spec is shown as Python writes it.
SPEC = r"\b[A-Z]\w*\((?:[^()]|\([^()]*\))*\)"
ARGUMENT = re.compile(rf"{SPEC}|`?(?<![\w.(\[{{-])(\w+)={VALUE}`?(?=[\s,;:.)]|$)")


def flags_of(command: click.Command) -> dict[str, str]:
    """The options of a command, by their names and by those of its parameters."""
    flags: dict[str, str] = {}
    for option in command.params:
        if isinstance(option, click.Option):
            flag = max(getattr(option, "shown", option.opts), key=len)
            flags[flag.lstrip("-").replace("-", "_")] = flags[str(option.name)] = flag
    return flags


def command_advice(name: str) -> str:
    """What to write for a command that does not exist; nothing where nobody knows."""
    advice = (
        f"Write `posenc {command}`."
        for command, words in COMMAND_WORDS.items()
        if name.lower() in words.split()
    )
    return next(advice, "") or encoding_advice(name)


def encoding_advice(text: str) -> str:
    """What to write for an encoding in the place of a command or picture; nothing for others."""
    from posenc.registry import spelled

    name = spelled(text.partition("(")[0].removeprefix("posenc."))
    command = f"posenc {DRAWN.get(kind_of(name), 'plot')}"
    if not name:
        return ""
    option = f"--spec {shlex.quote(text)}" if "(" in text else f"--encoding {name}"
    return f"{name} is an encoding: write `{command} {option}`."


def usage_advice(error: click.UsageError, command: click.Command) -> str:
    """What to write for an option or word that a command lacks, instead of click's guess."""
    flags = flags_of(command)
    if isinstance(error, click.NoSuchOption):
        text = f"No such option '{error.option_name}'."
        name = error.option_name.lstrip("-").replace("-", "_").lower()
        targets = [to for to, words in OPTION_WORDS.items() if name in words.split()]
        targets += sorted(meanings(name)[0], key=("positions", "q_positions").__contains__)
        if spellings := [flags[target] for target in targets if target in flags]:
            return f"{text} Write {spellings[0]}."
        places = {p.name: p for p in command.params if isinstance(p, click.Argument)}
        if any(target in places for target in targets):
            call = " ".join(p.metavar or str(p.name).upper() for p in places.values())
            return f"{text} It stands by place: posenc {command.name} {call}."
        if name in FORMATS and "output" in flags:
            return f"{text} Write {flags['output']} FILE.{name}."
        if "output" in targets:
            return f"{text} The answer goes to standard output: write > FILE."
        if "length" in targets and "config" in places:
            return f"{text} A longer context is planned by posenc extend CONFIG LENGTH."
        if near := closest(name, {f.lstrip("-").replace("-", "_") for f in flags.values()}):
            return f"{text} Did you mean '{flags[near]}'?"
        if any(p.nargs == -1 for p in places.values()) and command.name:
            return f"{text} It takes words: `posenc list bias`, `posenc list rotary llama`."
        return f"{text} `--help` lists the options."
    text = error.format_message()
    named = [flags[name] for name in ("encoding", "preset", "spec") if name in flags]
    if text.startswith("Got unexpected extra argument") and named:
        such = ", such as --spec 'Sinusoidal(512)'" if "--spec" in named else ""
        return f"{text}. An encoding is named by {' or '.join(named)}{such}."
    if text.startswith("Got unexpected extra argument") and command.name == "infer":
        return f"{text}. Recorded arrays are one .npz, with input, output and positions."
    return text


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

    message = re.sub(rf"(^|: )(?:{FUNCTIONS}): ", r"\1", message)
    message = re.sub(r"`?(?:layout=)?Projections\(([\w=, ]*)\)`?", fields, message)
    message = PATTERNS.sub(patterns, message)
    message = re.sub(r"`(\w+)`", lambda m: flags.get(m[1], m[0]), message)
    return ARGUMENT.sub(argument, ALTERNATIVE.sub("", message))
