"""Options for what the config of a checkpoint does not say about its heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from posenc.cli.options.common import WordChoice, with_options
from posenc.cli.options.inputs import InputFile

if TYPE_CHECKING:
    from posenc.detect.convert import Projections

DEFAULT_BASE = 10_000.0  # of a rotation whose angles do not matter


stored_option = click.option(
    "--stored",
    type=WordChoice(("half", "interleaved")),
    help="The pairing as it is, where nothing states it.",
)


projection_options = with_options(
    click.option(
        "--config",
        type=InputFile(),
        metavar="FILE",
        help="Config, if not beside the weights.",
    ),
    click.option("--heads", type=click.IntRange(1), help="Heads of queries."),
    click.option("--kv-heads", type=click.IntRange(1), help="Heads of keys."),
    click.option("--rotary", type=click.IntRange(2), help="Channels of a head that turn."),
    click.option(
        "--side",
        type=WordChoice(("leading", "trailing")),
        help="Which channels of a head turn. [default: leading]",
    ),
    click.option(
        "--fused",
        type=WordChoice(("blocks", "groups")),
        help="How one module packs queries, keys and values.",
    ),
    click.option(
        "--name",
        "patterns",
        metavar="ROLE=PATTERN",
        multiple=True,
        help="Names of q, k, qkv, q_gain or k_gain.",
    ),
    click.option("--only", metavar="PATTERN", default="*", help="Names to look at."),
    click.option("--part", metavar="NAME", help="The part of a config of several."),
    click.option("--attention", metavar="NAME", default="", help="One inside layers: indexer."),
)


def given(
    options: dict[str, Any], *, stored: Literal["half", "interleaved"] | None = None
) -> tuple[Projections, Any]:
    """What the options say, and the config."""
    from posenc.detect.convert import Projections
    from posenc.encodings.rotary.pairing import Pairing
    from posenc.encodings.rotary.rope import RoPE

    names = {}
    for pattern in options["patterns"]:
        role, equals, value = pattern.partition("=")
        if not equals or not value:
            raise click.UsageError(f"--name {pattern!r}: expected ROLE=PATTERN, as q=*.wq.weight.")
        names[role] = value
    rope = None
    if options["rotary"] is not None:
        if (stored := options.get("stored") or stored) is None:
            raise click.UsageError("--rotary needs --stored: how the channels are paired.")
        if options["rotary"] % 2:
            raise click.UsageError(f"--rotary {options['rotary']}: pairs need an even width.")
        part = Pairing(stored, part=options["side"] or "leading")
        rope = RoPE(options["rotary"], pairing=part, base=DEFAULT_BASE)
    elif options["side"] is not None:
        raise click.UsageError("--side is of --rotary.")
    layout = Projections(
        heads=options["heads"],
        kv_heads=options["kv_heads"],
        rope=rope,
        stored=options.get("stored"),
        fused=options["fused"],
        names=names or None,
        only=options["only"],
        part=options["part"],
        attention=options["attention"],
    )
    return layout, options["config"]
