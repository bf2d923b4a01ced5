"""What a command of another distribution is made of: its options, and how it shows results."""

from posenc.cli.options.common import InputText, RenamedOption, as_json, grouped
from posenc.cli.output.lines import clean, print_json

__all__ = ["InputText", "RenamedOption", "as_json", "clean", "grouped", "print_json"]
