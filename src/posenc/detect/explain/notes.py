"""What a reader notes while it reads: sources of fields, remarks, warnings, errors."""

from __future__ import annotations

from posenc._core.reading import Level, Note, Origin, Source

# Words of warnings that leave something of the model out of the plan.
OPEN = ("unknown, because", "partly, because", "was not read")


def is_open(note: Note) -> bool:
    """Whether a note says that the plan does not hold all that the config says."""
    return note.level == "warning" and any(words in note.text for words in OPEN)


class Notes:
    """Notes on one entry of a plan, or on all of it."""

    def __init__(self, layer: str = "") -> None:
        self.layer = layer
        self.notes: list[Note] = []
        self.sources: list[Source] = []
        self.failed = False  # whether an entry cannot be made

    def _add(self, level: Level, text: str) -> None:
        note = Note(level, text, layer=self.layer)
        if note not in self.notes:
            self.notes.append(note)

    def error(self, text: str) -> None:
        """Something undecided that changes numbers, and without which there is no entry."""
        self.failed = True
        self._add("error", text)

    def contradiction(self, text: str) -> None:
        """Something that cannot be meant so; the entry is what models compute of it."""
        self._add("error", text)

    def warning(self, text: str) -> None:
        """Something a reader should know."""
        self._add("warning", text)

    def remark(self, text: str) -> None:
        """Something that helps to understand."""
        self._add("remark", text)

    def source(self, field: str, origin: Origin, where: str) -> None:
        """Where a field comes from."""
        self.sources.append(Source(field, origin=origin, where=where))
