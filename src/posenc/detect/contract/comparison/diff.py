"""The command `diff`: in which field two sides differ, by how much, and how far it was looked."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, Literal, final

from posenc._core.calls import checked_call
from posenc._core.errors import bad_data
from posenc._core.guard import foreign
from posenc._core.spec.answers import Displayed
from posenc.detect.contract.sides.side import Library

Verdict = Literal["differs", "nothing differs", "not compared"]
EXIT_CODES = {"nothing differs": 0, "differs": 1, "not compared": 3}


@final
@dataclass(frozen=True)
class Difference(Displayed):
    """One field in which two sides differ.

    Parameters
    ----------
    field : str
        In the words of the specs: `layers`, `base`, `dim`, `pairing.order`, `scaling.beta_fast`,
        `magnitude.attention_factor`; `positions`, `length`, `dtype`, `state`, `heads`,
        `frequencies`, `table` or `bias` where it is no field of a spec.
    a, b : str
        What it is on each side.
    size : float, optional
        The largest difference of numbers; None where none were compared.
    position : int, optional
        The first position where they differ noticeably: by more than 0.001, or by half of the
        largest difference where that is less. Rounding may show smaller ones before it, in `call`.
    what : str
        Of which numbers.
    where : str
        The layers.
    call : str
        The smallest call that shows a difference, where code was asked.

    Examples
    --------
    >>> import posenc
    >>> found = posenc.diff(posenc.ALiBi(12), posenc.ALiBi(12, recipe="geometric"))
    >>> found.differences[0].field, found.differences[0].a
    ('recipe', 'paper')
    """

    field: str
    a: str
    b: str
    size: float | None = None
    position: int | None = None
    what: str = "cos and sin"
    where: str = ""
    call: str = ""

    @property
    def text(self) -> str:
        """The difference as a sentence."""
        sentence = f"{self.where}: {self.field}: {self.a} against {self.b}"
        if self.size is None:
            return sentence
        begins = (
            ""
            if self.position is None
            else f", by over {min(1e-3, self.size / 2):.2g} from position {self.position:,} on"
        )
        return f"{sentence}; {self.what} differ by up to {self.size:.2g}{begins}"


@final
@dataclass(frozen=True)
class Comparison(Displayed):
    """What `diff` found, and how far it looked.

    Parameters
    ----------
    a, b : str
        Names of the sides.
    rows : tuple of Difference
        What explains the others first; `differences` where something was compared.
    compared : tuple of str
        What was, with positions, lengths and dtypes.
    not_compared : tuple of str
        What was not, and why.
    remarks : tuple of str
        What else the sides say of themselves.

    Raises
    ------
    DataError
        By `differences` and by `bool(…)`, which tells whether there are any, where nothing was
        compared: no differences would mean nothing then.

    Examples
    --------
    >>> import posenc
    >>> rope = posenc.RoPE(64, pairing="half")
    >>> posenc.diff(rope, rope.replace(base=500_000)).differences[0].field
    'base'
    """

    a: str
    b: str
    _: KW_ONLY
    rows: tuple[Difference, ...] = ()
    compared: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Where the sides differ, in what was compared."""
        if self.verdict == "not compared":
            reasons = "; ".join((*self.not_compared, *self.remarks)[:4]) or "no reason is known"
            todo = "`verdict`, `not_compared` and `lines()` can be read."
            caller = f"diff of {self.a} and {self.b}"
            raise bad_data(caller, "something that was compared", f"nothing ({reasons})", todo)
        return self.rows

    def __bool__(self) -> bool:
        return bool(self.differences)

    @property
    def verdict(self) -> Verdict:
        """`differs`; `nothing differs`, in what was compared; or `not compared`."""
        if self.rows:
            return "differs"
        return "nothing differs" if self.compared else "not compared"

    @property
    def exit_code(self) -> int:
        """0 where nothing differs, 1 for a difference, 3 where nothing could be compared."""
        return EXIT_CODES[self.verdict]

    def lines(self) -> list[str]:
        """For people."""
        lines = [
            f"A: {self.a}", f"B: {self.b}", "",
            *([row.text for row in self.rows] or [self._counted()]),
            *dict.fromkeys(f"  {row.call}" for row in self.rows if row.call),
        ]  # fmt: skip
        for title in ("compared", "not_compared", "remarks"):
            texts = [f"  {row}" for row in getattr(self, title)]
            lines += ["", f"{title.replace('_', ' ')}:", *texts] if texts else []
        return lines

    def _counted(self) -> str:
        """The verdict, with the number of things that it is about."""
        count, left = len(self.compared), len(self.not_compared)
        if not count:
            return self.verdict
        ends = re.findall(r"to position ([\d,]+) \(\d", " ".join(self.compared))
        to = min(ends, key=lambda end: int(end.replace(",", "")), default="")
        return (
            f"{self.verdict}: {count} compared"
            + (f" to position {to}" if to else "")
            + (f", {left} not compared" if left else "")
        )

    def markdown(self) -> str:
        """For an issue."""
        rows = [
            "| layers | field | A | B | largest difference | noticeable from position |",
            "|---|---|---|---|---|---|",
        ]
        for d in self.rows:
            size = "" if d.size is None else f"{d.size:.2g} ({d.what})"
            cells = (d.where, d.field, d.a, d.b, size, "" if d.position is None else d.position)
            rows.append(
                f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"
            )
        text = [
            f"A: `{self.a}`  ",
            f"B: `{self.b}`",
            "",
            *(rows if self.rows else [f"**{self._counted()}**"]),
        ]
        for title, lines in (("Compared", self.compared), ("Not compared", self.not_compared)):
            text += ["", f"{title}:", "", *(f"- {line}" for line in lines)] if lines else []
        return "\n".join(text)

    def to_dict(self) -> dict[str, Any]:
        """In plain JSON types: the fields, and the verdict."""
        fields = asdict(self)
        return {"verdict": self.verdict, "differences": fields.pop("rows"), **fields}


@foreign("diff", timed=False)
@checked_call
def diff(a: Any, b: Any, *, library: Library | None = None) -> Comparison:
    """In which field the positions of two models or implementations differ.

    Parameters
    ----------
    a, b : object
        Each a config (mapping, object, JSON, path or folder), a GGUF file, a `Reading`, `Plan` or
        `Spec` or its JSON, a contract of `posenc.golden` or its file, `"preset:NAME:WIDTH"`,
        `"plan:NAME"`; a model of transformers that is loaded, or `"hf:FOLDER"`; the path of a
        checkpoint that holds buffers (`inv_freq`, `cos_cached`, `embed_positions`);
        `"engine:vllm"`, of the config that the other side is, or `"engine:sglang=CONFIG"`;
        `"engine:mlx"`, the class that mlx-lm or mlx-vlm has for it; whatever `posenc.ask` asks,
        such as a function of `(x, positions)`; or an object with methods of the protocol in
        `docs/golden.md`, such as `cos_sin(positions, layer)`.
    library : {"numpy", "torch", "jax", "mlx"}, optional
        Whose arrays an implementation takes, where that is not to be found out; methods of the
        protocol get those of NumPy.

    Returns
    -------
    Comparison
        Its `differences`, and what was and was not compared. Where nothing was, `differences`
        raises.

    Raises
    ------
    ArgumentError
        If a side is nothing that can be compared.
    DataError
        If a side cannot be read, or leaves something open that changes numbers.
    DependencyError
        If a library is missing.

    Examples
    --------
    >>> import posenc
    >>> config = {"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0,
    ...           "max_position_embeddings": 8192}
    >>> def engine(positions):                               # forgets the base
    ...     return posenc.cos_sin(posenc.RoPE(64, pairing="half"), positions)
    >>> print(posenc.diff(config, engine).differences[0].text.replace("; ", ";" + chr(10)))
    attention: base: 500000 against 10000, the default;
    cos and sin to position 511 differ by up to 2, by over 0.001 from position 1 on
    """
    from posenc.detect.contract.comparison.compare import comparison
    from posenc.detect.contract.sides.sides import side_of

    pairs = ((a, b), (b, a))
    return comparison(*(side_of(side, library=library, other=other) for side, other in pairs))
