"""Tools that read other people's models."""
