"""Errors of the library in the words of the command: flags where Python has arguments.

A verb that lacks an argument says `params=`; who typed a command is told `--params`. Which flags
there are is asked of the command itself.
"""

from __future__ import annotations

import re

import click

__all__ = ["in_flags"]

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
ARGUMENT = re.compile(rf"`?(?<![\w.(\[{{-])(\w+)={VALUE}`?(?=[\s,;:.)]|$)")


def in_flags(message: str, command: click.Command) -> str:
    """A message with the flags of a command in place of arguments of functions.

    Parameters
    ----------
    message : str
        As raised by the library.
    command : click.Command
        The one that was asked for.
    """
    flags: dict[str, str] = {}
    for option in command.params:
        if isinstance(option, click.Option):
            flag = max(getattr(option, "shown", option.opts), key=len)
            flags[flag.lstrip("-").replace("-", "_")] = flags[str(option.name)] = flag
    for name, several in ALIASES.items():
        there = [flag for flag in several.split(", ") if flag in flags.values()]
        if there:
            flags[name] = ", ".join(there)

    def fields(match: re.Match[str]) -> str:
        names = re.findall(r"(\w+)=", match[1])
        return ", ".join(flags.get(name, name) for name in names)

    def patterns(match: re.Match[str]) -> str:
        sets = re.findall(r"\{([^}]*)\}", match[0])
        roles = [re.findall(r"\"(\w+)\": (\w+)", each) for each in sets]
        flag = flags.get("names", "names")
        return " or ".join(" ".join(f"{flag} {k}={v}" for k, v in each) for each in roles)

    def argument(match: re.Match[str]) -> str:
        flag, value = flags.get(match[1]), match[3] or match[4]
        if flag is None:
            return match[0]
        return f"{flag} {value}" if value else flag

    message = re.sub(rf"(^|: )(?:{FUNCTIONS}): ", r"\1", message)
    message = re.sub(r"`?(?:layout=)?Projections\(([\w=, ]*)\)`?", fields, message)
    message = PATTERNS.sub(patterns, message)
    message = re.sub(r"`(\w+)`", lambda m: flags.get(m[1], m[0]), message)
    return ARGUMENT.sub(argument, ALTERNATIVE.sub("", message))
