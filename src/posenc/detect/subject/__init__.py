"""Anybody's code -> what it answers: one way to ask, one sampler, one reach."""

from posenc.detect.subject.ask import ask, asked
from posenc.detect.subject.code import CannotAsk, refuse_if
from posenc.detect.subject.reach import Reach
from posenc.detect.subject.smallest import Survey
from posenc.detect.subject.subject import Subject
from posenc.detect.subject.widths import at_its_width

__all__ = ["CannotAsk", "Reach", "Subject", "Survey", "ask", "asked", "at_its_width", "refuse_if"]
