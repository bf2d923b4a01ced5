"""`posenc pairing`: which channels of queries and keys are paired, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from posenc.cli.options.common import as_json
from posenc.cli.options.inputs import InputFile
from posenc.cli.options.projections import given, projection_options
from posenc.cli.output.show import print_answer

if TYPE_CHECKING:
    from posenc.detect.convert import PairingFinding

EXAMPLES = """\b
Examples:
  posenc pairing llama/
  posenc pairing model.safetensors --config config.json --json
  posenc pairing model.safetensors --heads 32 --rotary 128
"""


@click.command(epilog=EXAMPLES)
@click.argument("checkpoint", metavar="CHECKPOINT", type=InputFile())
@projection_options
@as_json
def command(*, checkpoint: str, json_: bool, **projections: Any) -> None:
    """Tell half from interleaved by the config and the weights.

    CHECKPOINT is a .safetensors file, an index of several, or a folder with one of these and its
    config.json. What is stated comes first; the weights are evidence, as z values, and the answer
    may be that nothing tells. The exit code is 0 for that as well.
    """
    from posenc.detect.convert import detect_pairing

    layout, config = given(projections, stored="half")
    finding = detect_pairing(checkpoint, layout=layout, config=config)
    print_answer(json_, finding.to_dict, _lines(finding))


def _lines(finding: PairingFinding) -> list[str]:
    """The finding in words."""
    from posenc.detect.convert import THRESHOLD

    z = finding.weights
    stated = f"{finding.stated}, by {finding.source}" if finding.stated else "nothing"
    measured = f"similarity z {z.similarity:+.1f}, balance z {z.balance:+.1f}"
    return [
        f"{finding.pairing}: {finding.why}",
        f"  stated: {stated}",
        f"  weights: {finding.claim}; {measured}, {z.groups} groups of heads",
        f"  (above 0 for half, below 0 for interleaved; a claim from {THRESHOLD} on)",
    ]
