"""Anybody's code -> what it answers: one way to ask, one sampler, one reach."""

from posenc.detect.subject.ask import ask, asked
from posenc.detect.subject.code import CannotAsk, refuse_if
from posenc.detect.subject.reach import Reach
from posenc.detect.subject.smallest import Survey
from posenc.detect.subject.subject import Subject

__all__ = ["CannotAsk", "Reach", "Subject", "Survey", "ask", "asked", "refuse_if"]
