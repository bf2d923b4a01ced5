"""The floor of settings: every encoding in every setting that an array library has."""
