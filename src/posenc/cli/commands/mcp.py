"""`posenc mcp`: commands that answer, as tools of the Model Context Protocol.

A tool is a command: its arguments are those of the command line, its answer is what `--json`
prints, and it runs in a process of its own, which opens files below one folder alone.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import posenc
from posenc._core.errors import DependencyError, bad_argument, one_of, refuse, refuse_argument
from posenc._core.io.inputs import CONFIG_FILE
from posenc.cli._app import app, command_of
from posenc.cli.options.common import InputFile, is_json
from posenc.cli.options.encodings import is_spec
from posenc.detect.facts.engines import ENGINE, TABLES

TOOLS = ("explain", "diff", "golden", "doctor", "trace")
# How an answer is written, which is settled here; and what a report of the machine imports.
SETTLED = ("--json", "--markdown", "--force", "--format", "--import")
MOST = 18_000  # characters of one part of an answer, all ASCII; with what is said of it, 20 kB
SOURCES = {  # what an argument takes, of those that are no options
    "config": "A folder, config.json or GGUF file, or the JSON of a config.",
    "model": "A folder, config.json or GGUF file.",
    "source": "A folder, a file, preset:NAME:WIDTH or plan:NAME; of trace a folder or dumps.",
    **dict.fromkeys("ab", "A side: a folder, a file, JSON, preset:, plan: or engine:NAME."),
    "engine": "What runs it: FILE.py:NAME, MODULE:NAME, hf:FOLDER, buffers or a config.",
}
LONGEST = 100_000  # of a word that a process is started with
ALLOW = "That would run code: start the server as `posenc mcp --allow-code`."
CHILD = """import sys
from posenc._core.io import inputs
from posenc.cli import main
inputs.below.append(sys.argv.pop(1))
main()"""
INSTRUCTIONS = """What a model does about positions, and where two models or implementations differ.
Files are named relative to {root}, and none outside it is read. A source may also be the JSON of a
config or spec, preset:NAME:WIDTH or plan:NAME. The server runs {no}code that a call names."""


@click.command(
    epilog="""\b
Examples:
  posenc mcp
  posenc mcp --root models --allow-code
"""
)
@click.option(
    "--root",
    type=InputFile(),
    default=".",
    metavar="FOLDER",
    help="Files below it are read, and no others. [default: the working folder]",
)
@click.option(
    "--allow-code",
    is_flag=True,
    help="Run the code that a call names: FILE.py:NAME, hf:, engine:mlx, the model of a folder.",
)
def command(*, root: str, allow_code: bool) -> None:
    """Serve explain, diff, golden, doctor and trace to programs.

    The Model Context Protocol runs over standard input and output; no port is opened. A call
    answers with the JSON of its command, in parts of at most 18,000 characters. Nothing is
    written but the file that a call of golden names, which must be new and lie below FOLDER. Code
    that a call names is run only with --allow-code; it can do what you can do, outside FOLDER too.
    """
    refuse_argument(not Path(root).is_dir(), "posenc mcp: --root", "a folder", repr(root[:200]))
    try:
        import anyio
        from mcp.server import Server
        from mcp.server.stdio import stdio_server
        from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool
    except ImportError:
        raise DependencyError("mcp needs its protocol: pip install 'posenc[mcp]'") from None
    folder = Path(root).resolve()

    async def listed(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(**described(name)) for name in TOOLS])

    async def called(_: Any, call: Any) -> CallToolResult:
        arguments = dict(call.arguments or {})
        start = arguments.pop("start", 0)
        with tempfile.TemporaryDirectory() as scratch:
            try:
                refuse_argument(
                    type(start) is not int or start < 0, "start", "0 or more", repr(start)
                )
                words = command_line(call.name, arguments, folder, allow_code)
                if call.name == "golden" and "output" not in arguments:
                    words.insert(1, f"--output={scratch}/summary")  # of which nothing is kept
                # A config itself is no word of `explain`, which reads it from standard input.
                text = words[-1] if call.name == "explain" and is_json(words[-1]) else ""
                words[-1:] = ["-"] if text else words[-1:]
                done = await anyio.run_process(
                    [sys.executable, "-c", CHILD, str(folder), *words], check=False, cwd=folder,
                    input=text.encode(),
                    # No module is taken from the working folder, and no line is cut.
                    env={**os.environ, "PYTHONSAFEPATH": "1", "COLUMNS": ""},
                )  # fmt: skip
                answer = done.stdout.decode().replace(f'"{scratch}/summary"', "")
                texts = parted(answer, done.stderr.decode(errors="replace"), start)
            except (OSError, ValueError) as error:
                texts = "", str(error)
        content: Any = [TextContent(text=text) for text in texts if text]
        return CallToolResult(content=content, is_error=not texts[0])

    async def serve() -> None:
        server: Server[Any] = Server(
            "posenc", version=posenc.__version__, on_list_tools=listed, on_call_tool=called,
            instructions=INSTRUCTIONS.format(root=folder, no="" if allow_code else "no "),
        )  # fmt: skip
        async with stdio_server() as (source, sink):
            await server.run(source, sink, server.create_initialization_options())

    # A thread waits for the next line of input: a signal that were raised would wait with it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    anyio.run(serve)


def described(name: str) -> dict[str, Any]:
    """A tool, as its command describes itself."""
    properties: dict[str, Any] = {
        "start": {"type": "integer", "description": "Where an answer in parts goes on."}
    }
    for key, one in _parameters(name).items():
        told = getattr(one, "help", None) or SOURCES.get(key, one.metavar)
        properties[key] = {"description": told}
        if isinstance(one.type, click.Choice):
            properties[key]["enum"] = [*one.type.choices]
    return {
        "name": name,
        "description": str(command_of(app, [name]).help).replace("\b\n", ""),
        "input_schema": {
            "type": "object",
            "properties": properties,
            "required": [key for key, one in _parameters(name).items() if one.required],
        },
    }


def command_line(
    name: str, arguments: Mapping[str, Any], root: Path, allow_code: bool
) -> list[str]:
    """The words of a call whose files all lie below a folder; `ArgumentError` for any other."""
    one_of(name, TOOLS, "posenc mcp", "a tool")
    parameters, flags, places = _parameters(name), ["--json"], list[str]()
    for key in arguments:
        one_of(key, parameters, name, "an argument that it has")
    for key, one in parameters.items():
        value = arguments.get(key)
        text = value if isinstance(value, str) else json.dumps(value)
        if isinstance(one, click.Argument):
            places.append("" if value is None else text)
        elif value is not None:
            flags.append(f"--{key.replace('_', '-')}={text}")
        if value is not None and (
            key == "output" or isinstance(one, click.Argument) or isinstance(one.type, InputFile)
        ):
            _check_source(f"{name}: {key}", text, root, allow_code)
    runs = name == "trace" and not allow_code and (root / places[0] / CONFIG_FILE).exists()
    refuse(
        (Path(str(arguments.get("output") or "new.json")).suffix not in (".json", ".safetensors"),
         f"{name}: output", "a name that ends in .json or .safetensors", "another"),
        (runs, name, "dumps", "the folder of a model", ALLOW),
        (name != "explain" and max(len(ascii(word)) for word in (*flags, *places)) > LONGEST,
         name, f"texts of at most {LONGEST:,} characters", "a longer one", "Write it to a file."),
    )  # fmt: skip
    last = max([0, *(number for number, place in enumerate(places, 1) if place)])
    return [name, *flags, "--", *places[:last]]


def _check_source(caller: str, text: str, root: Path, allow_code: bool) -> None:
    """Raise for what names code, where none may run, and for a file outside the folder."""
    if is_spec(text) or text.startswith(("preset:", "plan:")):
        return
    called, config = [*re.split("[= ]", text.removeprefix(ENGINE), maxsplit=1), ""][:2]
    if text.startswith(ENGINE) and called.partition("@")[0] in TABLES:  # whose numbers posenc has
        text = config or "."
    if ":" in text:
        expected = "a file, JSON, preset:NAME:WIDTH or plan:NAME"
        refuse_argument(not allow_code, caller, expected, repr(text[:200]), ALLOW)
    elif "\0" in text or not Path(os.path.realpath(root / text)).is_relative_to(root):
        raise bad_argument(caller, f"a file below {root}", repr(text[:200]))


def parted(text: str, remarks: str, start: int) -> tuple[str, str]:
    """A part of an answer, empty where there is none, and what is to be said of it."""
    remarks = re.sub(r"\A(Usage:.*?\nError: |posenc: error: )", "", remarks, flags=re.DOTALL)
    remarks = remarks.replace("--force replaces it", "name another file")
    end = min(start + MOST, len(text))
    if start or end < len(text):
        rest = f"call again with start={end} for the rest" if end < len(text) else "the last part"
        remarks = f"characters {start} to {end} of {len(text)}: {rest}\n{remarks}"
    return text[start:end], remarks.encode()[:1_500].decode(errors="ignore").strip()


def _parameters(name: str) -> dict[str, click.Parameter]:
    """What a call may say: the parameters of the command, named as on the command line."""
    flags = {max(getattr(p, "shown", p.opts), key=len): p for p in command_of(app, [name]).params}
    return {f.lstrip("-").replace("-", "_"): p for f, p in flags.items() if f not in SETTLED}
