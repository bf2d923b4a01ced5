"""Values, a vector or a rotated pair -> the position that gave them."""

from posenc.detect.locate.arcs import Arc, Interval, arcs_of, hits, read_value
from posenc.detect.locate.locate import locate
from posenc.detect.locate.result import Fit, Location

__all__ = ["Arc", "Fit", "Interval", "Location", "arcs_of", "hits", "locate", "read_value"]
