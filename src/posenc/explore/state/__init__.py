"""What a state says: encodings, models and files that can be chosen, and what is to be drawn."""
