"""A port that gives garbage: which line is it?"""
