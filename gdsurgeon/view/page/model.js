// The whole model: its graph, the bodies of its functions, what repeats in them, and the marks of a comparison.

// The payload in this page: deflated, in base 64.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(inflated).text());
}

const COLOURS = 12; // of kinds, in picture.css

class Model {
  constructor(payload) {
    this.title = printable(payload.title);
    this.graphs = payload.graphs.map((raw, number) => new Graph(raw, payload.strings, payload.lists, number));
    this.main = this.graphs[0];
    this.functions = new Map(Object.entries(payload.functions));
    this.legend = payload.legend;
    this.marks = new Map(Object.entries(payload.marks).map(([row, mark]) => [Number(row), mark]));
    this.notes = payload.notes;
    this.findKinds();
    this.countMarks();
    this.countFaults();
  }

  // The body of the function NAME; null where it is not to be shown.
  body(name) {
    const number = this.functions.get(name);
    return typeof number === "number" ? this.graphs[number] : null;
  }

  // Scopes of the same structure, by kind: { graph, scope } each. What stands for one node is no repetition.
  findKinds() {
    this.kinds = new Map();
    for (const graph of this.graphs) {
      for (let scope = 1; scope < graph.scopes; scope++) {
        const kind = graph.kind(scope);
        if (kind < 0 || graph.drawn[scope] < 2) continue;
        const children = graph.children(scope);
        if (children.length === 1) continue; // a scope around another
        if (!this.kinds.has(kind)) this.kinds.set(kind, []);
        this.kinds.get(kind).push({ graph, scope });
      }
    }
    for (const [kind, scopes] of this.kinds) if (scopes.length < 2) this.kinds.delete(kind);
    const nodesIn = ([, scopes]) => scopes.reduce((sum, { graph, scope }) => sum + graph.drawn[scope], 0);
    const sorted = [...this.kinds].sort((a, b) => nodesIn(b) - nodesIn(a) || a[0] - b[0]);
    this.colours = new Map(sorted.map(([kind], at) => [kind, at % COLOURS]));
  }

  // How often the structure of KIND is there; 1 where that says nothing.
  repetitions(kind) { return this.kinds.has(kind) ? this.kinds.get(kind).length : 1; }

  mark(graph, row) { return graph === this.main ? this.marks.get(row) || "" : ""; }
  note(graph, row) { return graph === this.main ? this.notes[row] || "" : ""; }

  countMarks() {
    this.markCounts = new Map(); // by mark: by scope how many
    for (const mark of Object.keys(this.legend)) {
      const rows = [...this.marks].filter(([, found]) => found === mark).map(([row]) => row);
      if (rows.length) this.markCounts.set(mark, this.main.countsOf(rows));
    }
  }

  // How many nodes of SCOPE have each mark: [mark, count] each.
  marksIn(graph, scope) {
    if (graph !== this.main) return [];
    return [...this.markCounts].map(([mark, counts]) => [mark, counts.get(scope) || 0]).filter(([, count]) => count);
  }

  countFaults() {
    this.faults = []; // { graph, row } each
    this.faultCounts = this.graphs.map((graph) => {
      const rows = Object.keys(graph.raw.faults).map(Number);
      this.faults.push(...rows.map((row) => ({ graph, row })));
      return graph.countsOf(rows);
    });
  }

  faultsIn(graph, scope) { return this.faultCounts[graph.number].get(scope) || 0; }

  // A node that calls the function whose body GRAPH is: { graph, row }; null where the model calls it nowhere.
  callSite(graph) {
    if (!this.callSites) {
      this.callSites = new Map([[this.main, null]]);
      for (const [caller] of this.callSites) { // it grows meanwhile: breadth first
        for (const [row, names] of Object.entries(caller.raw.calls)) {
          for (const body of names.map((name) => this.body(name))) {
            if (body && !this.callSites.has(body)) this.callSites.set(body, { graph: caller, row: Number(row) });
          }
        }
      }
    }
    return this.callSites.get(graph) || null;
  }
}
