"""What the config of a model says: `posenc explain`, `extend`, `golden` and `diff`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc._core.io import inputs, outputs
from posenc.cli.options.common import (
    Count,
    InputFile,
    OutputChoice,
    RenamedOption,
    WordChoice,
    as_json,
    base_option,
    file_there,
    is_json,
    length_options,
    library_option,
    output_options,
    pairing_option,
    plan_names,
    refuse,
    runs_code,
    side_named,
    standard_input,
    standard_json,
)
from posenc.cli.options.encodings import named_spec
from posenc.cli.output.lines import print_answer, print_json, print_lines, width_of_lines

if TYPE_CHECKING:
    from posenc.detect.contract import Contract

CONFIG = "the JSON of a config, which begins with {"

# --- explain --------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc explain config.json
  posenc explain --plan smollm3
"""
)
@click.argument("config", metavar="[CONFIG]", type=InputFile(stream=True), required=False)
@click.option(
    "--plan",
    "name",
    metavar="NAME",
    help="Explain the plan of a published model; see posenc list.",
    shell_complete=plan_names,
)
@pairing_option
@base_option
@click.option(
    "--dialect",
    cls=RenamedOption,
    old=("--to",),
    type=WordChoice(("hf4", "hf5")),
    help="Write the config in this dialect instead.",
)
@as_json
def explain(
    config: str | None, name: str | None, *, dialect: Any, json_: bool, **stated: Any
) -> None:
    """Explain the positions of a model from its config.

    CONFIG is a config.json of transformers, a folder that holds one, a GGUF file, or - for standard
    input. With --dialect, the same parameters are written in that of transformers 4 or 5, and what
    it cannot say is listed on standard error. The exit code is 1 where something that changes
    numbers is left open, or left out of the plan. With --plan, a published model is explained layer
    by layer, and no config is read.
    """
    if name is not None and config is None:
        refuse(
            any(value is not None for value in (*stated.values(), dialect)),
            "--plan explains a published model: --pairing, --base and --dialect are for a CONFIG.",
        )
        _explain_plan(name, json_)
        return
    if config is None or name is not None:
        both = "" if config is None else ", not both"
        raise click.UsageError(f"Give a CONFIG, - for standard input, or --plan NAME{both}.")
    source = standard_json(CONFIG) if config == "-" else Path(config)
    if dialect is not None:
        _translate(source, dialect, json_)
        return
    from posenc.detect.explain import describe, is_open, lines
    from posenc.detect.facts import explain

    plan = explain(source, **stated, on_error="report")
    print_answer(json_, lambda: {**plan.to_dict(), "described": describe(plan)}, lines(plan))
    if plan.errors or any(is_open(note) for note in plan.notes):
        raise click.exceptions.Exit(1)


def _explain_plan(name: str, json_: bool) -> None:
    from posenc._core.spec.spec import to_json
    from posenc.detect.explain import plan_lines
    from posenc.presets import plan_row

    row = plan_row(name)
    plan = row.build()
    if json_:
        description = {"name": row.name, "sizes": dict(row.sizes), "sources": list(row.sources)}
        print_json({**description, "note": row.note, "plan": json.loads(to_json(plan))})
    else:
        first, *rest = plan_lines(plan)
        keys = ("repository", "version", "path", "symbol", "paper")
        sources = (" ".join(str(read[k]) for k in keys if k in read) for read in row.sources)
        print_lines((f"{row.name}: {first}", *rest, "", row.note, "", "read from", *sources))


def _translate(
    source: str | Path, to: Any, json_: bool, target: OutputChoice | None = None, **stated: Any
) -> None:
    """Print a config in another format, or write it; what it cannot say goes to standard error."""
    from posenc.detect.explain import convert_config

    translation = convert_config(source, to, **stated)
    text = json.dumps(translation.config, indent=2)
    if target is not None and target.output is not None:
        outputs.write_whole(target.output, text + "\n", existing=target.existing)
    if json_:
        print_json(translation.to_dict())
        return
    if target is None or target.output is None:
        click.echo(text)
    print_lines((f"lost: {sentence}" for sentence in translation.lost), err=True)


# --- convert-config -------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc convert-config params.json --to hf -o config.json
  posenc convert-config config.json --to litgpt
"""
)
@click.argument("config", metavar="CONFIG", type=InputFile(stream=True))
@click.option("--to", metavar="FORMAT", required=True, help="hf, hf4, or a format that is listed.")
@output_options("Where to write it.", metavar="FILE")
@pairing_option
@base_option
@as_json
def convert_config(
    config: str, *, target: OutputChoice, json_: bool, to: str, **stated: Any
) -> None:
    """Write the positions of a config in another format.

    CONFIG is a config of transformers or of another format, or - for standard input. FORMAT is hf
    (transformers 5), hf4, meta, mistral, torchchat, executorch, litgpt, neox, olmo or trtllm. What
    is written is read again: what the format cannot say is listed on standard error as lost. Keys
    that do not concern positions, or sizes, are not written. JSON is YAML, too.
    """
    target.check()
    refuse(target.output is None and target.force, "-o is missing: --force is for its file.")
    refuse(
        config != "-"
        and target.output is not None
        and target.path.exists()
        and target.path.samefile(config),
        "the output is the input, whose other keys would be lost: give it another name.",
    )
    _translate(
        standard_json(CONFIG) if config == "-" else Path(config), to, json_, target, **stated
    )


# --- extend ---------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc extend config.json 128k
  posenc extend config.json --factor 4 --rule yarn -o longer.json
  posenc extend FLUX/ --size 2048x2048 --trained 1024x1024
"""
)
@click.argument("config", metavar="CONFIG")
@click.argument("length", metavar="[LENGTH]", type=Count(1), required=False)
@length_options("The same as LENGTH.", "The new length over the trained one, in place of it.")
@click.option("--rule", metavar="NAME", help="Write this rule, in place of the first.")
@click.option("--size", metavar="WxH", help="The new size of a picture, of a diffusion model.")
@click.option("--frames", type=Count(1), metavar="N", help="The new frames of a film.")
@click.option("--tokens", is_flag=True, help="Sizes and frames are tokens, not pixels.")
@output_options("Write the config with the rule in it.", metavar="FILE")
@as_json
def extend(
    config: str,
    *,
    length: int | None,
    to: int | None,
    target: OutputChoice,
    json_: bool,
    **how: Any,
) -> None:
    """Plan a longer context for a model.

    LENGTH is the new length in positions, such as 131072 or 128k. CONFIG is a config.json of
    transformers, a folder that holds one, a GGUF file, or - for standard input. For each kind of
    layer the rules that extend a context are compared by what they do to the angles that the
    model was trained on; the first of them by this arithmetic comes with the lines that engines
    need. Quality is not predicted. With -o the config is written with the rule in it.

    For a diffusion model (a folder of its pipeline or transformer), --size or --frames state the
    new ones, and --trained those of its training, written alike. No code reads a rule from its
    config, so --rule NAME prints a line of Python.
    """
    from posenc.detect.extend import extend
    from posenc.detect.extend.report import lines

    grids = how["size"] is not None or how["frames"] is not None
    refuse(
        [length, to, how["factor"]].count(None) != 2 + grids,
        "Give the new LENGTH, such as 128k, or --factor F, and not both; of a diffusion model "
        "--size or --frames.",
    )
    refuse(
        grids and target.output is not None, "-o: no code of diffusers reads a rule from a config."
    )
    refuse(target.force and target.output is None, "--force needs -o FILE.")
    target.check()
    source: Any = standard_input(CONFIG, inputs.CONFIG) if config == "-" else file_there(config)
    extension = extend(source, length or to, **how)
    text = [*lines(extension, width_of_lines() or 1000)]
    if target.output is not None:
        outputs.write_whole(target.output, json.dumps(extension.config(), indent=2) + "\n")
        text.append(f"written: {target.output}")
    print_answer(json_, extension.to_dict, text)


# --- golden ---------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc golden config.json -o model.golden.json
  posenc golden model.gguf -o model.golden.json --format both
  posenc golden preset:llama:128 -o llama.golden.json
  posenc golden plan:gemma3 -o gemma3.golden.json
"""
)
@click.argument("source", metavar="SOURCE")
@output_options(
    "Where to write it.",
    click.option(
        "--format",
        "formats",
        metavar="LIST",
        help="json, safetensors or both. [default: by the ending of FILE, else json]",
    ),
    metavar="FILE",
)
@pairing_option
@base_option
@as_json
def golden(source: str, *, target: OutputChoice, formats: Any, json_: bool, **stated: Any) -> None:
    """Write the numbers that a model's positions must give.

    SOURCE is a config.json of transformers, a folder that holds one, a GGUF file, the JSON of a
    spec or plan or a file of it, preset:NAME:WIDTH, plan:NAME, engine:NAME=CONFIG, or - for
    standard input. For each kind of layer the file states frequencies, cosines and sines, rotated
    queries and keys, scores, rows and biases at positions near and far, with tolerances;
    docs/golden.md describes every field. Without -o the JSON is printed.
    """
    output, force = target
    refuse(
        output is None and (formats is not None or force),
        "-o is missing: --format and --force say how its file is written.",
    )
    from posenc.detect.contract import golden
    from posenc.detect.contract.files import targets, text_of

    formats = "both" if formats == "json,safetensors" else formats
    for name in targets(output, formats).values() if output is not None else ():
        OutputChoice(str(name), force).check()
    contract = golden(source_of(source), **stated)
    if output is None:
        click.echo(text_of(contract), nl=False)
    else:
        names = contract.save(output, format=formats, existing=target.existing)
        if json_:
            result = {"output": list(names), "fingerprint": contract.fingerprint}
            result |= {"settled": contract.settled, "parts": [part.name for part in contract.parts]}
            click.echo(json.dumps(result))
        else:
            print_lines([f"{' and '.join(names)}: {contract}"])
    _warn(contract)


def source_of(source: str) -> Any:
    """What the command line names: a text for JSON and names of rows, else a path that is there."""
    if source == "-":
        return standard_json("the JSON of a config, a plan or a spec, which begins with {")
    rows = ("preset:", "plan:", "engine:")
    if spec := named_spec(source, "SOURCE"):
        return spec
    return source if is_json(source) or source.startswith(rows) else Path(file_there(source))


def _warn(contract: Contract) -> None:
    """Warnings of the reader, and what no record states, on standard error."""
    notes = (note for note in contract.notes if note.level == "warning")
    lines = [f"warning: {note.layer}: {note.text}".replace(": : ", ": ") for note in notes]
    lines += [f"left out: {part.name}: {why}" for part in contract.parts for why in part.left_out]
    print_lines(lines, err=True)


# --- diff -----------------------------------------------------------------------------------------


@click.command(
    epilog="""\b
Examples:
  posenc diff config.json other/config.json
  posenc diff config.json rope.py:rotate
  posenc diff "RoPE(64, pairing='half')" hf:llama/
  posenc diff table.npy 'Sinusoidal(64)'
"""
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@library_option
@click.option("--markdown", is_flag=True, help="Print a table for an issue.")
@runs_code
@as_json
def diff(a: str, b: str, *, library: Any, markdown: bool, json_: bool) -> None:
    """Compare the positions of two models or implementations.

    A and B are each one of

    \b
      config.json, a folder, a .gguf file, the JSON of a spec or plan
      a file of posenc golden
      preset:NAME:WIDTH, plan:NAME
      MODULE:NAME, FILE.py:NAME   code: f(x, positions), f(positions), a class …
      model.safetensors, .pt …    buffers: inv_freq, cos_cached, embed_positions
      hf:FOLDER                   the class in transformers, without remote code
      engine:NAME[=CONFIG]        what vllm, sglang or llama.cpp makes of a config
      engine:mlx[=CONFIG]         the class of mlx-lm or mlx-vlm

    Without CONFIG, an engine is asked for the config of the other side.

    It names the fields that differ, what explains the others first, and says what was compared and
    what was not. MODULE:NAME is imported and run.

    The exit code is 0 if nothing differs in what was compared, which is counted, 1 for a
    difference, 2 for a mistake in the command line, and 3 if nothing could be compared, or code
    that was run ended the process or took longer than --timeout.
    """  # noqa: D301 - click reads the character
    refuse(markdown and json_, "--markdown and --json: choose one.")
    from posenc.detect.contract import diff
    from posenc.detect.contract.sides.sides import side_of

    sides = [named_spec(text, place) or side_named(text) for text, place in ((a, "A"), (b, "B"))]
    named = zip(sides, (a, b), reversed(sides), strict=True)
    comparison = diff(
        *(side_of(side, name=name, library=library, other=other) for side, name, other in named)
    )
    lines = comparison.markdown().split("\n") if markdown else comparison.lines()
    print_answer(json_, comparison.to_dict, lines)
    raise click.exceptions.Exit(comparison.exit_code)
