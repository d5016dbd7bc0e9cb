"""The journal of a graph: what every change has replaced, so that changes can be taken back, and made again.

Changes are recorded while an edit runs. If the edit raises, they are undone, and the graph is as before. Records of
successful edits are kept, so that the graph can be shown in its state between two edits.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
_MISSING = object()

Entry = tuple[Value, Value, Value]
"""(a dict, a key, its value before) or (an object, the name of an attribute, its value before)."""


class Mark(NamedTuple):
    """Where an edit began: entries of the journal, edits around it, and the journal's `whole`."""

    entries: int
    depth: int
    whole: dict[int, dict[Value, Value]]


class Journal:
    """The values that changes have replaced, in the order of the changes.

    Attributes:
        depth: how many edits run, one inside the other; 0: nothing is noted.
        rewinds: how often changes were undone or redone: data derived from the graph is outdated then.
        whole: the dicts that an entry of the running edit can restore as a whole, by their id; see `copied`.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.depth = 0
        self.rewinds = 0
        self.whole: dict[int, dict[Value, Value]] = {}

    def set_item(self, mapping: dict[Value, Value], key: Value, value: Value) -> None:
        """Sets an item of MAPPING."""
        if self.depth and id(mapping) not in self.whole:
            self.entries.append((mapping, key, mapping.get(key, _MISSING)))
        mapping[key] = value

    def drop_item(self, mapping: dict[Value, Value], key: Value) -> None:
        """Removes an item of MAPPING, if it is there. Taking that back puts it at the end."""
        if key in mapping:
            if self.depth and id(mapping) not in self.whole:
                self.entries.append((mapping, key, mapping[key]))
            del mapping[key]

    def set_attribute(self, item: object, name: str, value: object) -> None:
        """Sets an attribute of ITEM."""
        if self.depth:
            self.entries.append((item, name, getattr(item, name)))
        setattr(item, name, value)

    def copied(self, item: object, name: str) -> dict[Value, Value]:
        """Returns the dict in the attribute `name` of `item`, in which many entries or their order will change.

        While an edit runs it is a copy, made once, so that undoing the edit restores the dict as a whole.
        """
        found: dict[Value, Value] = getattr(item, name)
        if self.depth and id(found) not in self.whole:
            found = dict(found)
            self.set_attribute(item, name, found)
            self.whole[id(found)] = found
        return found

    def mark(self) -> Mark:
        """Where an edit begins, perhaps inside one that runs."""
        return Mark(len(self.entries), self.depth, self.whole)

    def begin(self, mark: Mark) -> None:
        """Begins an edit at MARK."""
        self.whole = {}
        self.depth = mark.depth + 1

    def end(self, mark: Mark) -> None:
        """Ends the edit that began at MARK."""
        self.depth = mark.depth
        self.whole = mark.whole if mark.depth else {}

    def take_back(self, mark: Mark) -> None:
        """Takes back what was changed since MARK, and ends the edit that began there."""
        while True:
            try:
                self.rewind(mark.entries)
                self.end(mark)
                return
            except KeyboardInterrupt:  # a step that was half done is repeated
                continue

    def rewind(self, mark: int) -> list[Entry]:
        """Takes back all changes but the first MARK; returns what makes them again, see `replay`."""
        self.rewinds += 1
        taken: list[Entry] = []
        while len(self.entries) > mark:
            entry = self.entries[-1]
            taken.append(_exchanged(entry))
            self.entries.pop()
        return taken

    def replay(self, taken: list[Entry]) -> None:
        """Makes the changes again that `rewind` has TAKEN back."""
        self.rewinds += 1
        while taken:
            self.entries.append(_exchanged(taken[-1]))
            taken.pop()


def _exchanged(entry: Entry) -> Entry:
    """Puts back the value of ENTRY; returns the entry that undoes that."""
    item, key, value = entry
    if type(item) is not dict:
        now = getattr(item, key)
        setattr(item, key, value)
        return item, key, now
    now = item.get(key, _MISSING)
    if value is _MISSING:
        item.pop(key, None)
    else:
        item[key] = value
    return item, key, now
