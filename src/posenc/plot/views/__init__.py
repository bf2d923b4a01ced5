"""What each picture shows, as arrays and sentences: one module per picture, NumPy only.

Every module has `data(spec, …)`, which returns a frozen dataclass with a `title`, a `caption` and
the arrays. Drawing adds nothing to them, so a static plot and the explorer cannot drift apart.
"""
