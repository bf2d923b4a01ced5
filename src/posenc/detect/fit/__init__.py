"""Numbers -> the spec that gives them, and what each part of it rests on."""
