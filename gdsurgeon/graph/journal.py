"""The journal of a graph: the value that each change replaced, so that changes can be undone and redone.

Changes are recorded while an edit runs. If the edit raises, they are undone, and the graph is as before. Records of
successful edits are kept, so that the graph can be shown in its state between two edits.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
_MISSING = object()

Entry = tuple[Value, Value, Value]
"""(a dict, a key, its value before) or (an object, the name of an attribute, its value before)."""


class Savepoint(NamedTuple):
    """The start of an edit.

    Attributes:
        entries: the number of journal entries.
        depth: the number of enclosing edits.
        whole: the journal's `whole`.
        edits: the number of edits of the graph before it.
    """

    entries: int
    depth: int
    whole: dict[int, dict[Value, Value]]
    edits: int


class Journal:
    """The values that changes have replaced, in the order of the changes.

    Attributes:
        depth: the number of nested edits that run; at 0, nothing is recorded.
        rewinds: how often changes were undone or redone; data derived from the graph is outdated after that.
        whole: the dicts that an entry of the running edit can restore as a whole, by their id; see `copied`.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.depth = 0
        self.rewinds = 0
        self.whole: dict[int, dict[Value, Value]] = {}

    def set_item(self, mapping: dict[Value, Value], key: Value, value: Value) -> None:
        """Sets an item of `mapping`."""
        if self.depth and id(mapping) not in self.whole:
            self.entries.append((mapping, key, mapping.get(key, _MISSING)))
        mapping[key] = value

    def drop_item(self, mapping: dict[Value, Value], key: Value) -> None:
        """Removes an item of `mapping`, if it exists. Undoing this puts the item at the end."""
        if key in mapping:
            if self.depth and id(mapping) not in self.whole:
                self.entries.append((mapping, key, mapping[key]))
            del mapping[key]

    def set_attribute(self, item: object, name: str, value: object) -> None:
        """Sets an attribute of `item`."""
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

    def begin(self, mark: Savepoint) -> None:
        """Begins an edit at `mark`."""
        self.whole = {}
        self.depth = mark.depth + 1

    def end(self, mark: Savepoint) -> None:
        """Ends the edit that began at `mark`."""
        self.depth = mark.depth
        self.whole = mark.whole if mark.depth else {}

    def take_back(self, mark: Savepoint) -> None:
        """Undoes the changes since `mark`, and ends the edit that began there."""
        while True:
            try:
                self.rewind(mark.entries)
                self.end(mark)
                return
            except KeyboardInterrupt:  # repeats an interrupted step
                continue

    def rewind(self, mark: int) -> list[Entry]:
        """Undoes all changes except the first `mark`; returns the entries with which `replay` redoes them."""
        self.rewinds += 1
        taken: list[Entry] = []
        while len(self.entries) > mark:
            entry = self.entries[-1]
            taken.append(_exchanged(entry))
            self.entries.pop()
        return taken

    def replay(self, taken: list[Entry]) -> None:
        """Redoes the changes that `rewind` undid; `taken` is its result, and is emptied."""
        self.rewinds += 1
        while taken:
            self.entries.append(_exchanged(taken[-1]))
            taken.pop()


def _exchanged(entry: Entry) -> Entry:
    """Restores the value of `entry`; returns the entry that undoes this."""
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
