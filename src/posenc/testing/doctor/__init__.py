"""A port that gives garbage -> where it parts from its model, and the line to change."""

from posenc.testing.doctor.diagnosis import Diagnosis, Fault
from posenc.testing.doctor.doctor import doctor

__all__ = ["Diagnosis", "Fault", "doctor"]
