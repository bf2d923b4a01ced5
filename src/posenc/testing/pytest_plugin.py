"""`pytest --posenc MODULE:NAME`: each law of a subject becomes a test.

Nothing but the standard library and pytest is imported until the option is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from posenc.testing.lab import Law
    from posenc.testing.subject import Subject


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--posenc`."""
    group = parser.getgroup("posenc", "laws of positional encodings")
    group.addoption(
        "--posenc",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="hold a posenc.testing.Subject, a function that makes one, or a spec to the laws of "
        "its kind; may be repeated",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[Any]:
    """Add the laws of each named subject to what was collected."""
    result = yield
    for target in session.config.getoption("--posenc"):
        items = list(Battery.from_parent(session, name=target).collect())
        session.items.extend(items)
        session.testscollected += len(items)
    return result


@pytest.fixture
def assert_contract(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`posenc.testing.assert_contract`, with paths relative to the file of the test."""
    from posenc.testing.contract import assert_contract

    def asserted(side: Any, contract: Any, **options: Any) -> Any:
        if isinstance(contract, (str, os.PathLike)):
            contract = request.path.parent / contract
        return assert_contract(side, contract, **options)

    return asserted


class Battery(pytest.Collector):
    """The laws of one subject."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test for each law."""
        from posenc._core.errors import PosencError
        from posenc._core.guard import foreign
        from posenc.testing.battery import laws

        try:
            with foreign(f"--posenc {self.name}"):
                subject = _subject(self.name)
        except PosencError as error:
            raise pytest.UsageError(str(error)) from error
        except (pytest.skip.Exception, pytest.fail.Exception) as error:
            yield Withheld.from_parent(self, name="subject", outcome=error)
            return
        for law in laws(subject.kind):
            yield LawItem.from_parent(self, name=law.name, law=law, subject=subject)


class Withheld(pytest.Item):
    """A subject whose code skips or fails by itself, as one test that does the same."""

    def __init__(self, *, outcome: BaseException, **more: Any) -> None:
        super().__init__(**more)
        self.outcome = outcome

    def runtest(self) -> None:
        """Raise what the code raised."""
        raise self.outcome


class LawItem(pytest.Item):
    """One law, as a test."""

    def __init__(self, *, law: Law, subject: Subject, **more: Any) -> None:
        super().__init__(**more)
        self.law, self.subject = law, subject

    def runtest(self) -> None:
        """Try the law; what is not offered is skipped, with the reason."""
        from posenc.testing.lab import run

        result = run(self.law, self.subject)
        if result.status == "not offered":
            pytest.skip(result.says)
        if result.status == "fail":
            raise AssertionError(_words(result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """What the law says, without a traceback through the battery."""
        return (
            str(excinfo.value)
            if excinfo.errisinstance(AssertionError)
            else str(super().repr_failure(excinfo, style))
        )

    def reportinfo(self) -> tuple[str, None, str]:
        """How the test is called."""
        return self.subject.name, None, f"{self.subject.name}: {self.law.name}"


def _subject(target: str) -> Subject:
    from posenc._core.errors import ArgumentError, mismatch
    from posenc._core.spec.spec import Spec
    from posenc.testing.subject import Subject
    from posenc.testing.target import load, of_spec

    subject = load(target)
    if callable(subject) and not isinstance(subject, (Subject, Spec, type)):
        subject = subject()
    subject = of_spec(subject) if isinstance(subject, Spec) else subject
    if not isinstance(subject, Subject):
        expected = "a posenc.testing.Subject, a function that makes one, or a spec"
        todo = "posenc.testing.adapt makes one of a class or function."
        raise ArgumentError(mismatch(f"--posenc {target}", expected, type(subject).__name__, todo))
    return subject


def _words(result: Any) -> str:
    words = f"{result.statement}: {result.says}"
    if result.measured is not None and result.bound is not None:
        words += f"\nmeasured {result.measured:.3g}, bound {result.bound:.3g}"
    shown = ", ".join(f"{key} {value}" for key, value in result.input.items())
    return f"{words}\ninput: {shown}" if shown else words
