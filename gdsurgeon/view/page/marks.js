// What a comparison says of nodes: the legend, and going from one difference to the next.

const MARK_CLASSES = { "+": "added", "-": "removed", "~": "changed", ">": "rewired" };

// The legend of MODEL as elements: a mark, what it means, how many there are.
function legendOf(model) {
  return Object.entries(model.legend).map(([mark, meaning]) => {
    const count = [...model.marks.values()].filter((found) => found === mark).length;
    if (!count) return null;
    return markElement(mark, `${meaning} ${count.toLocaleString("en")}`);
  }).filter(Boolean);
}

// Where to go from one to the next, around: what is marked, or, where nothing is, what is wrong.
class Round {
  constructor(model) {
    const marked = [...model.marks.keys()].sort((a, b) => a - b).map((row) => ({ graph: model.main, row }));
    this.stops = marked.length ? marked : model.faults;
    this.at = -1;
  }

  // The next stop, or with STEP -1 the one before; null where there is none.
  go(step) {
    if (!this.stops.length) return null;
    const count = this.stops.length;
    this.at = this.at < 0 && step < 0 ? count - 1 : (this.at + step + count) % count;
    return this.stops[this.at];
  }
}
