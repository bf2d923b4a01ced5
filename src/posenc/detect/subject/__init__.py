"""Anybody's code -> what it answers: one way to ask, one sampler, one reach."""

from posenc.detect.subject.ask import ask
from posenc.detect.subject.code import CannotAsk
from posenc.detect.subject.subject import Subject

__all__ = ["CannotAsk", "Subject", "ask"]
