"""What is wrong with each of the broken models."""
