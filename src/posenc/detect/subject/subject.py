"""One way to ask anybody's code for its encoding: `posenc.ask`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from posenc._core.errors import ArgumentError, bad_argument, mismatch
from posenc.detect.subject.arrays import followed, one_of_each
from posenc.detect.subject.calling import biased, rows_made, turn
from posenc.detect.subject.code import CannotAsk, refuse_if
from posenc.detect.subject.discovery import Found, pairs_of
from posenc.detect.subject.forms import Inquiry

Kind = Literal["rotary", "cos_sin", "angles", "table", "bias"]
KINDS = ("rotary", "cos_sin", "angles", "table", "bias")
WORDS = {
    "rotary": "a rotation", "cos_sin": "cosines and sines", "angles": "angles", "table": "a table",
    "bias": "a bias",
}  # fmt: skip


@dataclass
class Subject:
    """Anybody's implementation of positions, and the one way to ask it.

    Numbers go in and come out as NumPy arrays; out in float64. What comes in is handed over in
    `dtype`, float32 by default.

    Parameters
    ----------
    kind : {"rotary", "cos_sin", "angles", "table", "bias"}
        What it computes.
    how : str
        How it is called, in one sentence.
    dim : int
        Channels of a head, or of a row.
    library : {"numpy", "torch", "jax", "mlx"}
        Whose arrays it takes.
    name : str
        What it is called.
    heads : int, optional
        The number of heads, where it was stated.

    Examples
    --------
    >>> import numpy as np, posenc
    >>> def mine(query, input_pos):                        # (batch, seq, heads, channels)
    ...     angle = input_pos[:, None, None] * 1e4 ** (-np.arange(32) / 32)
    ...     a, b = query[..., :32], query[..., 32:]
    ...     cos, sin = np.cos(angle), np.sin(angle)
    ...     return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
    >>> subject = posenc.ask(mine)
    >>> subject.kind, subject.rotate(np.ones((2, 3, 4, 64)), np.arange(4)).shape
    ('rotary', (2, 3, 4, 64))
    """

    kind: Kind
    how: str
    dim: int
    library: str
    name: str
    heads: int | None = None
    _found: Any = field(default=None, repr=False)
    _counter: Any = field(default=None, repr=False)
    _others: Any = field(default=None, repr=False)  # gives further forms that answer
    _anew: Any = field(default=None, repr=False)  # makes another instance
    _axes: int = field(default=1, repr=False)
    _unit: float = field(default=1.0, repr=False)  # of the coordinates that steps are
    _one: Any = field(default=None, repr=False)  # columns of cosines, one of each pair
    _target: Any = field(default=None, repr=False)
    _options: Any = field(default_factory=dict, repr=False)

    @property
    def calls(self) -> int:
        """Calls so far, those that were refused included."""
        return int(self._counter.calls)

    def rotate(self, x: Any, positions: Any, *, dtype: str = "float32") -> np.ndarray:
        """What becomes of queries.

            y[b, h, s] = R(positions[b, s]) x[b, h, s]

        Parameters
        ----------
        x : array (batch, heads, seq, dim)
            Queries, or keys.
        positions : array of int, (seq,) or (batch, seq)
            Where its tokens stand.
        dtype : str
            In which they are handed over.

        Returns
        -------
        numpy.ndarray
            As x, float64.

        Raises
        ------
        CannotAsk
            If it is no rotation, or cannot be asked for these positions.

        Examples
        --------
        >>> import numpy as np, posenc
        >>> rope = posenc.RoPE(8, pairing="half")
        >>> def mine(x, positions): return posenc.rotate(rope, x, positions=positions)
        >>> subject = posenc.ask(mine, dim=8)
        >>> subject.rotate(np.ones((1, 1, 1, 8)), [0])[0, 0, 0, :3]
        array([1., 1., 1.])
        """
        return self.both(x, positions, dtype=dtype)[0]

    def both(
        self, x: Any, positions: Any, *, dtype: str = "float32", strided: bool = False,
        groups: int = 1,
    ) -> list[np.ndarray]:  # fmt: skip
        """Queries x, and keys of half their size, of one head for each of `groups`, turned."""
        self._is("rotary")
        x = np.asarray(x, dtype=np.float64)
        refuse_if(
            x.ndim != 4,
            mismatch("rotate: x", "(batch, heads, seq, channels)", f"shape {x.shape}"),
            ArgumentError,
        )
        return turn(
            self._found.form,
            Inquiry(
                x, self._placed(positions, x.shape[0], x.shape[2]), dtype, strided, groups=groups
            ),
            self._counter,
        )

    def cos_sin(self, positions: Any) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and sines of the angles of each pair.

            cos[s, j], sin[s, j]

        Parameters
        ----------
        positions : array of int, (seq,) or (batch, seq)
            Where tokens stand.

        Returns
        -------
        tuple of numpy.ndarray
            Each (..., seq, pairs); of as many columns as it gives where those of a pair differ.

        Raises
        ------
        CannotAsk
            If it gives no cosines and sines.

        Examples
        --------
        >>> import numpy as np, posenc
        >>> subject = posenc.ask({"inv_freq": np.array([1.0, 0.1])})
        >>> subject.cos_sin([0, 1])[1].round(4)
        array([[0.    , 0.    ],
               [0.8415, 0.0998]])
        """
        self._is("cos_sin", "angles")
        parts = self.built(positions)
        if self.kind == "angles":
            cos, sin = np.cos(parts[0]), np.sin(parts[0])
        else:
            cos, sin = pairs_of(parts) or (parts[0], parts[-1])
            cos, sin = (sin, cos) if self._found.swapped else (cos, sin)
        columns = self._columns(cos, sin)
        return (
            self._rows_as(cos[..., columns], positions),
            self._rows_as(sin[..., columns], positions),
        )

    def rows(self, positions: Any, *, dtype: str = "float32") -> np.ndarray:
        """Rows of a table, or what is added to x.

            rows[s] = table[positions[s]]

        Parameters
        ----------
        positions : array of int, (seq,) or (batch, seq)
            Which.
        dtype : str
            In which they are asked for, where the code has a way to say so.

        Returns
        -------
        numpy.ndarray
            (..., seq, dim), float64.

        Raises
        ------
        CannotAsk
            If it has no rows.

        Examples
        --------
        >>> import posenc
        >>> pe = posenc.Sinusoidal(8)
        >>> posenc.ask(lambda positions: posenc.table(pe, positions)).rows([0]).tolist()
        [[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]
        """
        self._is("table", "angles")
        if not self._found.added:
            return self._rows_as(self.built(positions, dtype)[0], positions)
        rows = self._placed(positions)
        return self._rows_as(
            turn(
                self._found.form,
                Inquiry(np.zeros((len(rows), 1, rows.shape[1], self.dim)), rows, dtype),
                self._counter,
            )[0][:, 0],
            positions,
        )

    def bias(self, q_positions: Any, k_positions: Any) -> np.ndarray:
        """What is added to the scores.

            score[h, i, j] + bias[h, q_positions[i], k_positions[j]]

        Parameters
        ----------
        q_positions, k_positions : array of int, (queries,) and (keys,)
            Where queries and keys stand.

        Returns
        -------
        numpy.ndarray
            (heads, queries, keys), float64.

        Raises
        ------
        CannotAsk
            If it is no bias, or takes lengths and these positions are none.

        Examples
        --------
        >>> import posenc
        >>> alibi = posenc.ALiBi(4)
        >>> def mine(q_positions, k_positions): return posenc.bias(alibi, q_positions, k_positions)
        >>> posenc.ask(mine).bias([3], [0, 3])[0].tolist()
        [[-0.75, 0.0]]
        """
        self._is("bias")
        q, k = (np.asarray(p, dtype=np.int64) for p in (q_positions, k_positions))
        return biased(self._found, q, k, self._counter)

    def frequencies(self) -> np.ndarray:
        """Radians per position of each pair, followed from near positions to far ones.

        Returns
        -------
        numpy.ndarray
            (pairs,), float64.

        Raises
        ------
        CannotAsk
            If nothing in it turns.

        Examples
        --------
        >>> import numpy as np, posenc
        >>> posenc.ask({"inv_freq": np.array([1.0, 0.1])}).frequencies().round(6)
        array([1. , 0.1])
        """
        self._is("rotary", "cos_sin", "angles")
        if self.kind == "angles":
            return np.asarray(self.built([1])[0].reshape(-1))
        places = [2**k for k in range(12)]
        turns = self._turns(np.array([0, *places]))
        return followed(turns * np.conj(turns[0]), [0, *places])

    def fresh(self) -> Subject:
        """Another instance of a class, or of the module that was handed over.

        Returns
        -------
        Subject
            Inquiry in the same form, with no memory of calls.

        Raises
        ------
        CannotAsk
            If it is a function, which cannot be made anew.

        Examples
        --------
        >>> import posenc
        >>> posenc.ask(posenc.torch.RotaryEmbedding(posenc.RoPE(64, pairing="half"))).fresh().kind
        'rotary'
        """
        refuse_if(
            self._anew is None,
            f"ask: {self.name} is no class, so no other object of it can be made",
        )
        return self._anew()

    def survey(self, expected: Any, end: int = 2**20, seconds: float = 10, seed: int = 20) -> Any:
        """Hold it against what is expected, in calls of every kind.

        Parameters
        ----------
        expected : Spec or callable
            A spec; or a function with the arguments of the question and its answer in float64:
            `(x, positions)` of a rotation, `(positions)` of a table or of cosines and sines,
            `(q_positions, k_positions)` of a bias.
        end : int
            The farthest position.
        seconds : float
            After which no further call is made.
        seed : int
            Of what is drawn.

        Returns
        -------
        Survey
            `agrees`, `difference`, `tolerance`, the `reach`, and the smallest `call` that differs.

        Raises
        ------
        ArgumentError
            If nothing can be expected of it.

        Examples
        --------
        >>> import posenc
        >>> rope = posenc.RoPE(8, pairing="half")
        >>> def mine(x, positions): return posenc.rotate(rope, x, positions=positions)
        >>> subject = posenc.ask(mine, dim=8)
        >>> subject.survey(rope, end=5000).agrees
        True
        """
        from posenc.detect.subject.survey import survey

        return survey(self, expected, end=end, seconds=seconds, seed=seed)

    def forms(self) -> list[Found]:
        """Further forms of the same kind that answer."""
        if callable(self._others):
            self._others = list(self._others())
        return list(self._others or ())

    def built(self, positions: Any, dtype: str = "float32") -> list[np.ndarray]:
        """What a function of positions makes, each (batch or 1, seq, ...)."""
        return rows_made(self._found.form, self._placed(positions), self._counter, dtype)

    def _columns(self, cos: np.ndarray, sin: np.ndarray) -> slice:
        """One column of each pair, where the first call has two that are alike for each."""
        if self._one is None:
            if cos.shape[1] < 2:  # at one position all may be alike
                self.cos_sin(np.arange(5))
                return self._columns(cos, sin)
            self._one = one_of_each(cos + 1j * sin)
        return self._one

    def _is(self, *kinds: str) -> None:
        if self.kind not in kinds:
            asked = " or ".join(WORDS[kind] for kind in kinds)
            raise CannotAsk(
                f"ask: {self.name} is {WORDS[self.kind]}, and the question is for {asked}"
            )

    def _placed(
        self, positions: Any, batch: int | None = None, seq: int | None = None
    ) -> np.ndarray:
        """Positions as (batch, seq), with an axis more where there are several."""
        rows = np.asarray(positions)
        rows = rows if self._unit == 1 else (rows * self._unit).astype(np.float32)
        rows = rows[None] if rows.ndim == 1 + (self._axes > 1) else rows
        flat = rows.ndim - (self._axes > 1) == 2
        if not flat or not rows.shape[1] or seq not in (None, rows.shape[1]):
            raise bad_argument(
                "ask: positions",
                f"(seq,) or (batch, seq) of {seq or 'one or more'} tokens",
                f"shape {rows.shape}",
            )
        return np.broadcast_to(rows, (len(rows) if batch is None else batch, *rows.shape[1:]))

    def _rows_as(self, rows: np.ndarray, positions: Any) -> np.ndarray:
        """Rows, or the one of positions that have no axis of rows."""
        return rows if np.ndim(positions) > 1 + (self._axes > 1) else rows[0]

    def _turns(self, places: np.ndarray) -> np.ndarray:
        """Cosines + i sines of pairs, (positions, pairs)."""
        if self.kind == "cos_sin":
            cos, sin = self.cos_sin(places)
            return np.asarray(cos + 1j * sin)
        basis = np.eye(self.dim)[:, None, None].repeat(len(places), axis=2)
        matrices = self.rotate(basis, places)[:, 0].transpose(1, 2, 0)  # (positions, out, in)
        apart = np.abs(matrices).max(axis=0) * (1 - np.eye(self.dim))
        partner = apart.argmax(axis=0)
        pairs = [(a, int(b)) for a, b in enumerate(partner) if a < b and apart[:, a].any()]
        refuse_if(not pairs, f"ask: no pair of channels of {self.name} turns")
        a, b = np.array(pairs).T
        return np.asarray(matrices[:, a, a] + 1j * matrices[:, b, a])
