"""Specs: values that check themselves, what their fields hold, and how they are shown."""
