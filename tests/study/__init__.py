"""The study, a distribution of its own: `study/`."""
