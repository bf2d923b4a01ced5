"""Published claims, registered before the runs, and the verdicts on them."""
