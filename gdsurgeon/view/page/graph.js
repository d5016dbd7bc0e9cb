// One graph, or the body of a function: its nodes as columns, its scopes as a tree, and for each scope the edges
// between what lies in it. Rows are nodes, producers first; a child of a scope is an id: a row, or -1 - the number of a
// scope.

class Graph {
  // RAW is one of the payload's graphs; see payload.py.
  constructor(raw, strings, lists, number) {
    this.number = number;
    this.title = raw.title;
    this.raw = raw;
    this.strings = strings;
    this.lists = lists;
    this.size = raw.op.length;
    this.scopes = raw.scopes.name.length;
    this.parentOf = Int32Array.from(raw.scopes.parent);
    this.depthOf = new Int32Array(this.scopes);
    for (let scope = 1; scope < this.scopes; scope++) this.depthOf[scope] = this.depthOf[this.parentOf[scope]] + 1;
    this.isGroup = new Set(raw.scopes.group);
    this.scopeOf = Int32Array.from(raw.scope);
    this.readEdges();
    this.hideWeights();
    this.countNodes();
  }

  // Inputs of all nodes in a row: those of `row` stand from inputsFrom[row] to inputsFrom[row + 1].
  readEdges() {
    const { reads, distances, slots } = this.raw;
    this.inputsFrom = new Int32Array(this.size + 1);
    this.producer = new Int32Array(distances.length);
    this.slot = new Int32Array(distances.length);
    for (let row = 0, at = 0; row < this.size; row++) {
      for (let left = reads[row]; left; left--, at++) this.producer[at] = row - distances[at];
      this.inputsFrom[row + 1] = at;
    }
    for (const [at, slot] of Object.entries(slots)) this.slot[at] = slot;
  }

  // A weight is shown as a line in what reads it; one that nobody reads is an output, and drawn.
  hideWeights() {
    this.hidden = new Uint8Array(this.size);
    for (const producer of this.producer) this.hidden[producer] = this.raw.weight[producer];
  }

  countNodes() {
    this.nodes = new Int32Array(this.scopes);
    this.drawn = new Int32Array(this.scopes);
    this.first = new Int32Array(this.scopes).fill(this.size);
    for (let row = this.size - 1; row >= 0; row--) {
      const scope = this.scopeOf[row];
      this.nodes[scope]++;
      if (this.hidden[row]) continue;
      this.drawn[scope]++;
      this.first[scope] = row;
    }
    for (let scope = this.scopes - 1; scope > 0; scope--) {
      const parent = this.parentOf[scope];
      this.nodes[parent] += this.nodes[scope];
      this.drawn[parent] += this.drawn[scope];
      this.first[parent] = Math.min(this.first[parent], this.first[scope]);
    }
  }

  // For each scope how many of ROWS lie in it; scopes without any are left out.
  countsOf(rows) {
    const counts = new Map();
    for (const row of rows) {
      for (let scope = this.scopeOf[row]; scope >= 0; scope = this.parentOf[scope]) {
        counts.set(scope, (counts.get(scope) || 0) + 1);
      }
    }
    return counts;
  }

  // For each scope whether it is SCOPE or lies in it.
  within(scope) {
    const inside = new Uint8Array(this.scopes);
    inside[scope] = 1;
    for (let inner = scope + 1; inner < this.scopes; inner++) inside[inner] = inside[this.parentOf[inner]];
    return inside;
  }

  op(row) { return this.strings[this.raw.op[row]]; }
  outputs(row) { return this.lists[this.raw.outputs[row]].map((text) => this.strings[text]); }
  tensor(row, slot) { return this.strings[this.lists[this.raw.outputs[row]][slot]] || ""; }
  device(row) { return this.raw.device[row] || ""; }
  calls(row) { return this.raw.calls[row] || []; }
  value(row) { return this.raw.values[row] || ""; }
  statistics(row) { return this.raw.statistics[row] || ""; }
  fault(row) { return this.raw.faults[row] || ""; }
  parameters(row) { return this.raw.parameters[row] || 0; }
  flops(row) { return this.raw.flops[row] || 0; }
  controls(row) { return this.raw.controls[row] || []; }
  scopeName(scope) { return this.strings[this.raw.scopes.name[scope]]; }
  kind(scope) { return this.raw.scopes.kind[scope]; }

  attrs(row) {
    const texts = this.lists[this.raw.attrs[row]].map((text) => this.strings[text]);
    return Array.from({ length: texts.length / 2 }, (_, at) => [texts[2 * at], texts[2 * at + 1]]);
  }

  // The data inputs of ROW: [row, slot] each.
  inputs(row) {
    const out = [];
    for (let at = this.inputsFrom[row]; at < this.inputsFrom[row + 1]; at++) {
      out.push([this.producer[at], this.slot[at]]);
    }
    return out;
  }

  // Those that read ROW, or wait for it, each once.
  readers(row) {
    if (!this.allReaders) {
      this.allReaders = Array.from({ length: this.size }, () => []);
      for (let reader = 0; reader < this.size; reader++) {
        const producers = new Set([...this.inputs(reader).map(([producer]) => producer), ...this.controls(reader)]);
        for (const producer of producers) this.allReaders[producer].push(reader);
      }
    }
    return this.allReaders[row];
  }

  // The last part of the name of ROW.
  leaf(row) {
    const leaf = this.raw.leaf[row];
    return leaf < 0 ? this.path(this.scopeOf[row]).split("/").pop() : this.strings[leaf];
  }

  name(row) {
    const whole = this.raw.names[row];
    if (whole !== undefined) return whole;
    const path = this.nodesPath(this.scopeOf[row]), leaf = this.raw.leaf[row];
    if (leaf < 0) return path;
    return path === null ? this.strings[leaf] : `${path}/${this.strings[leaf]}`;
  }

  // What the names of nodes begin with that lie in SCOPE: groups are in no name; null: nothing.
  nodesPath(scope) {
    if (!this.paths) {
      this.paths = [null];
      for (let inner = 1; inner < this.scopes; inner++) { // each behind the one that it lies in
        const above = this.paths[this.parentOf[inner]];
        this.paths.push(this.isGroup.has(inner) ? above : this.joined(above, inner));
      }
    }
    return this.paths[scope];
  }

  joined(above, scope) { return above === null ? this.scopeName(scope) : `${above}/${this.scopeName(scope)}`; }

  // What SCOPE is called; of a group, what its name adds to the scope around it.
  path(scope) {
    const path = this.nodesPath(scope);
    return this.isGroup.has(scope) ? this.joined(path, scope) : path || "";
  }

  // The ids of what is drawn in SCOPE, in the order of the graph.
  children(scope) {
    if (!this.allChildren) {
      this.allChildren = Array.from({ length: this.scopes }, () => []);
      for (let row = 0; row < this.size; row++) if (!this.hidden[row]) this.allChildren[this.scopeOf[row]].push(row);
      for (let child = 1; child < this.scopes; child++) {
        if (this.drawn[child]) this.allChildren[this.parentOf[child]].push(-1 - child);
      }
      const place = (id) => (id < 0 ? this.first[-1 - id] : id);
      for (const children of this.allChildren) children.sort((a, b) => place(a) - place(b) || a - b);
    }
    return this.allChildren[scope];
  }

  // What SCOPE is drawn as: { scope, label, row }: one that holds nothing but another is that other, by both names, and
  // one in which a single node is drawn is that node (row; else -1).
  drawnAs(scope) {
    let label = this.scopeName(scope), children = this.children(scope);
    while (children.length === 1 && children[0] < 0) {
      scope = -1 - children[0];
      label += `/${this.scopeName(scope)}`;
      children = this.children(scope);
    }
    return { scope, label, row: children.length === 1 ? children[0] : -1 };
  }

  // The edges between the children of SCOPE: { from, to, data, control, row, slot, several }: ids, how many tensors and
  // orders run there, one of the tensors, and whether there are others.
  edges(scope) {
    this.lift();
    return [...this.lifted[scope].values()];
  }

  // Whether the child ID reads from outside of the scope that it lies in (1), is read there (2), or both (3).
  reachOut(id) {
    this.lift();
    return id < 0 ? this.scopeReach[-1 - id] : this.rowReach[id];
  }

  // Lifts each edge to the innermost scope that both ends lie in, where it joins two children.
  lift() {
    if (this.lifted) return;
    this.lifted = Array.from({ length: this.scopes }, () => new Map());
    this.rowReach = new Uint8Array(this.size);
    this.scopeReach = new Uint8Array(this.scopes);
    for (let row = 0; row < this.size; row++) {
      if (this.hidden[row]) continue;
      for (let at = this.inputsFrom[row]; at < this.inputsFrom[row + 1]; at++) {
        this.liftEdge(this.producer[at], this.slot[at], row);
      }
      for (const producer of this.controls(row)) this.liftEdge(producer, -1, row);
    }
  }

  liftEdge(producer, slot, reader) {
    if (this.hidden[producer]) return;
    const { parentOf, depthOf } = this;
    let above = this.scopeOf[producer], below = this.scopeOf[reader], from = producer, to = reader;
    while (above !== below) {
      if (depthOf[above] >= depthOf[below]) {
        this.markReach(from, 2);
        from = -1 - above;
        above = parentOf[above];
      } else {
        this.markReach(to, 1);
        to = -1 - below;
        below = parentOf[below];
      }
    }
    if (from === to) return;
    const key = (from + this.scopes) * (this.size + this.scopes) + to + this.scopes, edges = this.lifted[above];
    let edge = edges.get(key);
    if (!edge) edges.set(key, (edge = { from, to, data: 0, control: 0, row: producer, slot, several: false }));
    if (slot < 0) edge.control++;
    else if (edge.data++ === 0) Object.assign(edge, { row: producer, slot });
    else if (edge.row !== producer || edge.slot !== slot) edge.several = true;
  }

  markReach(id, side) {
    if (id < 0) this.scopeReach[-1 - id] |= side;
    else this.rowReach[id] |= side;
  }

  // What EDGE of SCOPE is made of: [producer, slot, reader] each, the first MOST of them.
  tensorsOf(scope, edge, most) {
    const found = [];
    const childOf = (row) => {
      let id = row, inner = this.scopeOf[row];
      while (inner !== scope && inner >= 0) {
        id = -1 - inner;
        inner = this.parentOf[inner];
      }
      return inner < 0 ? null : id;
    };
    for (let reader = 0; reader < this.size && found.length < most; reader++) {
      if (this.hidden[reader] || childOf(reader) !== edge.to) continue;
      const inputs = [...this.inputs(reader), ...this.controls(reader).map((row) => [row, -1])];
      for (const [producer, slot] of inputs) if (childOf(producer) === edge.from) found.push([producer, slot, reader]);
    }
    return found;
  }

  // The weights that ROW reads: { row, source }: what it reads, and the constant or variable behind that.
  weightsOf(row) {
    return this.inputs(row).filter(([producer]) => this.hidden[producer]).map(([producer]) => {
      let source = producer;
      for (let inputs = this.inputs(source); inputs.length; inputs = this.inputs(source)) source = inputs[0][0];
      return { row: producer, source };
    });
  }
}
