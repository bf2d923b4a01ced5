"""The explorer as a widget of a notebook: the same page and the same `frame`, over its comm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc._core.errors import DependencyError, PosencError, bad_argument
from posenc._core.reading import Reading
from posenc._core.spec.plan import Plan
from posenc._core.spec.spec import Spec
from posenc.detect.facts import facts
from posenc.explore.frame import Steps
from posenc.explore.server.assets import whole
from posenc.explore.server.bundle import SCRIPT, STYLE
from posenc.explore.state.catalogue import entries_of, home_of, of_facts, of_plan
from posenc.explore.state.entry import CatalogueEntry, Session
from posenc.explore.state.fields import MOST_KEYS
from posenc.explore.state.files import given

try:
    import anywidget
    import traitlets
except ImportError:
    raise DependencyError("Widget needs anywidget: pip install 'posenc[notebook]'") from None

HEIGHT = 700


def _module() -> str:
    """The page and what connects it to the notebook, as one ES module."""
    files = whole()
    return "\n".join(
        [
            files[SCRIPT],
            *[
                f"const {name} = {json.dumps(text)};"
                for name, text in {"HTML": files["index.html"], "CSS": files[STYLE]}.items()
            ],
            files["notebook.js"],
            "export default { render };",
        ]
    )


class Widget(anywidget.AnyWidget):  # type: ignore[misc]
    """The explorer in a notebook: JupyterLab, marimo, and wherever else anywidget works.

    Parameters
    ----------
    spec : Spec, Plan, Reading or Session, optional
        What is shown at first, in its own view: an encoding, or the layers of a model.
    params : mapping, optional
        What the encoding has learned, as verbs take it.
    state : mapping of str to str, optional
        The state to begin with, in the keys of the address: `{"v": "waves", "d": "64"}`.
    height : int
        Room for the page, in CSS pixels.

    Attributes
    ----------
    state : dict of str to str
        The present state. It follows the page, and the page follows it.

    Raises
    ------
    ArgumentError
        If `spec` is none of these, or a state holds other than texts.

    Examples
    --------
    >>> import posenc
    >>> from posenc.explore import Widget                       # doctest: +SKIP
    >>> widget = Widget(posenc.RoPE(64, pairing="half"))        # doctest: +SKIP
    >>> widget.state = {**widget.state, "v": "waves"}           # doctest: +SKIP
    """

    _esm = _module()
    state = traitlets.Dict(
        key_trait=traitlets.Unicode(), value_trait=traitlets.Unicode(), default_value={}
    ).tag(sync=True)
    height = traitlets.Int(HEIGHT).tag(sync=True)

    def __init__(
        self,
        spec: Any = None,
        *,
        params: Mapping[str, np.ndarray] | None = None,
        state: Mapping[str, str] | None = None,
        height: int = HEIGHT,
    ) -> None:
        session = spec if isinstance(spec, Session) else Session(_entries(spec, params))
        first = session.entries[:1]
        begin = {"v": home_of(first[0]), "enc": first[0].id} if first else {}
        self._steps = Steps(session)
        super().__init__(state=_texts({**begin, **(state or {})}), height=height)
        self.on_msg(self._answer)

    @traitlets.validate("state")  # type: ignore[untyped-decorator]
    def _checked(self, proposal: Any) -> dict[str, str]:
        return _texts(proposal["value"])

    def _answer(self, _: Any, content: Any, __: Any) -> None:
        """A frame for the page that asked, or why there is none."""
        asked = content if isinstance(content, dict) else {}
        query, own = asked.get("query"), {"id": asked.get("id")}
        try:
            data = self._steps.frame(_texts(query if isinstance(query, dict) else {}))
        except PosencError as error:
            self.send({**own, "error": str(error)})
        else:
            self.send(own, buffers=[data])


def _texts(state: Mapping[Any, Any]) -> dict[str, str]:
    """A state; raises where it holds other than texts."""
    wrong = [
        f"{k!r}: {v!r}"
        for k, v in state.items()
        if not isinstance(k, str | int) or not isinstance(v, str)
    ]
    if wrong or len(state) > MOST_KEYS:
        raise bad_argument(
            "Widget: state",
            f"at most {MOST_KEYS:,} keys and texts, such as {{'v': 'waves', 'd': '64'}}",
            [*wrong, f"{len(state)} keys"][0],
        )
    return {str(key): value for key, value in state.items()}


def _entries(spec: Any, params: Mapping[str, np.ndarray] | None) -> tuple[CatalogueEntry, ...]:
    if spec is None:
        return ()
    if isinstance(spec, Reading):
        return entries_of(of_facts(facts(spec), spec, "", "plan"), "file:{}".format)
    if isinstance(spec, Plan):
        return entries_of(of_plan(spec, "the plan"), "file:{}".format)
    if isinstance(spec, Spec):
        return (given(spec, params),)
    raise bad_argument(
        "Widget",
        "a spec, a plan or a session",
        type(spec).__name__,
        "A config is read by posenc.from_hf, an array is Learned with params={'weight': array}.",
    )
