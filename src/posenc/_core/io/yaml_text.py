"""YAML and TOML texts as the dictionaries that they stand for, within the limits of JSON texts.

YAML is read by PyYAML's safe loader, which makes no objects. An alias, the name of a part that
stands elsewhere (`*name`), is not followed, as a few lines of these can stand for a great many
values: it stays an `Unclear`, which is refused where it is read, and so does a key with two values,
of which the loader would keep the last. Where an alias would merge keys (`<<`) the file is refused.
"""

from __future__ import annotations

import functools
import importlib
import re
import tomllib
from typing import Any

from posenc._core.errors import DataError, DependencyError, bad_data, mismatch, refuse_data

NUMBER = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9]*)?[eE][-+]?[0-9]+$")  # which YAML 1.1 has as texts
MERGE = "tag:yaml.org,2002:merge"
UNCLEAR = "tag:posenc,unclear"


class Unclear(str):
    """What a YAML file has for a value that it does not state once, in words of an error."""

    __slots__ = ()


def parse_yaml(text: str, caller: str, most: int) -> Any:
    """The value of a YAML text, which stands for so many values at most."""
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise DependencyError(
            mismatch(
                caller,
                "PyYAML, which reads YAML",
                "none",
                "Install PyYAML, as pip install 'posenc[yaml]' does.",
            )
        ) from error
    try:
        return _loader(yaml)(text, caller, most).get_single_data()
    except DataError:
        raise
    except RecursionError:
        raise DataError(f"{caller}: its YAML is nested deeper than can be read") from None
    except (yaml.YAMLError, ValueError) as error:  # or a number of too many digits
        raise DataError(f"{caller} is not YAML: {' '.join(str(error).split())[:200]}") from None


@functools.lru_cache(maxsize=1)
def _loader(yaml: Any) -> Any:
    """The safe loader of PyYAML, with limits."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def __init__(self, text: str, caller: str, most: int) -> None:
            super().__init__(text)
            self.caller, self.most, self.count = caller, most, 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.count += 1
            if self.check_event(yaml.AliasEvent):
                alias = f"*{self.get_event().anchor}"[:80]
                refuse_data(
                    getattr(index, "tag", "") == MERGE,
                    self.caller,
                    "a file without merged parts",
                    alias,
                    "Write the keys out where they are used.",
                )
                return yaml.ScalarNode(UNCLEAR, f"the alias {alias!r}")
            if self.count > self.most:
                raise bad_data(self.caller, f"a config of at most {self.most:,} values", "more")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: dict[str, Any] = {}
            for place, (key, value) in enumerate(node.value):
                if seen.setdefault(str(key.value), str(value.value)) != str(value.value):
                    twice = yaml.ScalarNode(UNCLEAR, "two values")
                    node.value[place] = (key, twice)
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+0123456789"))
    Loader.add_constructor("tag:yaml.org,2002:timestamp", Loader.construct_scalar)
    Loader.add_constructor(UNCLEAR, lambda loader, node: Unclear(loader.construct_scalar(node)))
    return Loader


def parse_toml(text: str, caller: str) -> dict[str, Any]:
    """The dictionary of a TOML text."""
    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise DataError(f"{caller} is not TOML: {str(error)[:200]}") from None
