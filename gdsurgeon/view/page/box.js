// What stands in the picture: a node, a scope, or the body of a function where it is called. A box is made when what is
// around it is opened, so that each call has its own instance of a body.

const BOX = {
  side: 9,        // between the frame of a box and its text
  line: 13,       // from one line of text to the next
  narrowest: 56,
  widest: 250,
  head: 26,       // what the name of an open box takes
  margin: 14,     // between the frame of an open box and what is in it
  constants: 3,   // weights that are told of in a node, at most
  most: 300,      // children that are shown at first
  more: 3000,     // how many more with each wish
  labelled: 150,  // children up to which edges tell their shapes
};
const SIZES = { name: 12, text: 11, small: 10, edge: 9 }; // of fonts in pixels, as in picture.css

class Box {
  // KEY is the id of a child in its graph, or the name of a function; ROW and SCOPE are -1 where it is none.
  constructor(model, parent, graph, key, { row = -1, scope = -1, label = "" }) {
    Object.assign(this, { model, parent, graph, key, row, scope, label: printable(label) });
    this.isOpen = false;
    this.boxes = new Map(); // of all children that were ever shown, by key
    this.shown = BOX.most;
    this.revealed = new Set(); // keys of children further on that were asked for
    this.x = this.y = this.width = this.height = 0;
    this.group = this.content = null; // its element, and that of what is in it; see picture.js
    if (parent) this.describe();
  }

  static ofChild(model, parent, graph, id) {
    if (id >= 0) return new Box(model, parent, graph, id, { row: id, label: graph.leaf(id) });
    return new Box(model, parent, graph, id, graph.drawnAs(-1 - id));
  }

  get isNode() { return this.row >= 0; }
  get root() { return this.parent ? this.parent.root : this; }
  get depth() { return this.parent ? this.parent.depth + 1 : 0; }

  // What it is called in whole.
  get name() {
    if (this.isNode) return this.graph.name(this.row);
    return this.scope > 0 ? this.graph.path(this.scope) : this.graph.title;
  }

  // The bodies that it calls and that can be shown here: not those that it lies in itself.
  get bodies() {
    if (!this.isNode) return [];
    const around = new Set();
    for (let box = this; box; box = box.parent) around.add(box.graph);
    return this.graph.calls(this.row).map((name) => this.model.body(name)).filter((body) => body && !around.has(body));
  }

  get canOpen() { return this.isNode ? this.bodies.length > 0 : true; }

  // What is in it when it is open: { graph, scope }; null where that is several functions side by side.
  get inside() {
    if (!this.isNode) return { graph: this.graph, scope: this.scope };
    const bodies = this.bodies;
    return bodies.length === 1 ? { graph: bodies[0], scope: 0 } : null;
  }

  // The keys of all its children.
  get keys() {
    const inside = this.inside;
    return inside ? inside.graph.children(inside.scope) : this.bodies.map((body) => body.title);
  }

  // The child KEY, whether it is shown or not.
  child(key) {
    let box = this.boxes.get(key);
    if (!box) {
      const inside = this.inside;
      if (inside) box = Box.ofChild(this.model, this, inside.graph, key);
      else box = new Box(this.model, this, this.model.body(key), key, { scope: 0, label: key });
      this.boxes.set(key, box);
    }
    return box;
  }

  // Its lines of text and its size while it is closed.
  describe() {
    this.texts = this.isNode ? this.textsOfNode() : this.textsOfScope();
    let width = BOX.narrowest;
    for (const text of this.texts) {
      text.shown = shortened(text.text, BOX.widest - 2 * BOX.side, SIZES[text.size], text.bold);
      width = Math.max(width, widthOf(text.shown, SIZES[text.size], text.bold) + 2 * BOX.side);
    }
    this.closedWidth = Math.ceil(width);
    this.closedHeight = this.texts.length * BOX.line + 11;
    this.width = this.closedWidth;
    this.height = this.closedHeight;
  }

  textsOfNode() {
    const { graph, row, label } = this;
    const mark = this.model.mark(graph, row), op = printable(graph.op(row));
    const sign = `${mark ? `${mark} ` : ""}${graph.fault(row) ? "⚠ " : ""}${this.canOpen ? "▸ " : ""}`;
    const texts = [{ text: sign + op, kind: "op", size: "text", bold: true }];
    if (label.replace(/_\d+$/, "") !== op) texts.push({ text: label, kind: "label", size: "text" });
    const weights = graph.weightsOf(row);
    for (const weight of weights.slice(0, BOX.constants)) texts.push(this.textOfWeight(weight));
    if (weights.length > BOX.constants) {
      texts.push({ text: `and ${weights.length - BOX.constants} more constants`, kind: "weight", size: "small" });
    }
    return texts;
  }

  textOfWeight({ row, source }) {
    const { graph, model } = this;
    const mark = model.mark(graph, row) || model.mark(graph, source), fault = graph.fault(row) || graph.fault(source);
    const value = graph.value(source);
    const what = value && value.length <= 24 ? `= ${printable(value)}` : printable(shapeText(graph.tensor(source, 0)));
    const text = `${mark ? `${mark} ` : ""}${fault ? "⚠ " : ""}${printable(graph.leaf(source))} ${what}`;
    return { text, kind: `weight${mark ? ` ${MARK_CLASSES[mark]}` : ""}`, size: "small" };
  }

  textsOfScope() {
    const { graph, scope, model } = this;
    const texts = [{ text: `▸ ${this.label}`, kind: "name", size: "name", bold: true }];
    const repeated = model.repetitions(graph.kind(scope)), parameters = graph.raw.scopes.parameters[scope];
    const facts = [counted(graph.nodes[scope], "node")];
    if (parameters) facts.push(`${rounded(parameters)} par`);
    if (repeated > 1) facts.push(`× ${repeated}`);
    texts.push({ text: facts.join(" · "), kind: "facts", size: "small" });
    const marks = model.marksIn(graph, scope).map(([mark, count]) => ({ text: `${mark}${count}`, mark }));
    const faults = model.faultsIn(graph, scope);
    if (faults) marks.push({ text: `⚠${faults}`, mark: "" });
    if (marks.length) {
      texts.push({ text: marks.map(({ text }) => text).join("  "), kind: "counts", size: "small", bold: true, marks });
    }
    return texts;
  }

  // Lays out what is in it, and with that sets its size. What is in it has its size already.
  arrange() {
    if (!this.isOpen) {
      this.width = this.closedWidth;
      this.height = this.closedHeight;
      return;
    }
    const keys = this.keys;
    this.left = 0; // children that are not shown
    let shown = keys;
    if (keys.length > this.shown + 20) {
      shown = keys.filter((key, at) => at < this.shown || this.revealed.has(key));
      this.left = keys.length - shown.length;
    }
    this.children = shown.map((key) => this.child(key));
    this.lines = this.linesBetween(shown);
    const positions = new Map(shown.map((key, at) => [key, at]));
    const room = this.roomForTexts();
    const sizes = this.children.map((box, at) => [Math.max(box.width, room[at]), box.height]);
    const found = layout(sizes, this.lines.map(({ edge }) => [positions.get(edge.from), positions.get(edge.to)]));
    this.children.forEach((box, at) => {
      box.x = found.x[at] - box.width / 2;
      box.y = found.y[at] - box.height / 2;
    });
    this.lines.forEach((line, at) => { line.points = found.lines[at]; });
    this.insideWidth = found.width;
    this.insideHeight = found.height;
    const title = this.parent ? widthOf(this.texts[0].shown, SIZES.name, true) + 2 * BOX.side : 0;
    this.width = Math.ceil(Math.max(found.width + 2 * BOX.margin, title, this.left ? 260 : 0));
    this.height = Math.ceil(found.height + BOX.head + BOX.margin + (this.left ? 24 : 0));
  }

  // The edges between the children SHOWN: { edge, text, atReader }: what is told of it, and at which end.
  linesBetween(shown) {
    const inside = this.inside;
    if (!inside) return [];
    const keys = new Set(shown), graph = inside.graph;
    const edges = graph.edges(inside.scope).filter(({ from, to }) => keys.has(from) && keys.has(to));
    const given = new Map(), taken = new Map(); // by child: the tensors that it gives; how many edges it takes
    const tensor = (edge) => (edge.several ? `many ${edge.from} ${edge.to}` : `${edge.row}:${edge.slot}`);
    for (const edge of edges) {
      if (!edge.data) continue;
      if (!given.has(edge.from)) given.set(edge.from, new Set());
      given.get(edge.from).add(tensor(edge));
      taken.set(edge.to, (taken.get(edge.to) || 0) + 1);
    }
    const told = new Set(); // children whose only tensor is told already
    return edges.map((edge) => {
      const line = { edge, text: "", atReader: false };
      if (!edge.data || shown.length > BOX.labelled) return line;
      const alone = given.get(edge.from).size === 1;
      if (alone ? told.has(edge.from) : taken.get(edge.to) > 1) return line;
      if (alone) told.add(edge.from);
      const text = edge.several ? counted(edge.data, "tensor") : shapeText(graph.tensor(edge.row, edge.slot));
      return { edge, text: shortened(printable(text), 130, SIZES.edge), atReader: !alone };
    });
  }

  // For each child how wide it must be for the text of an edge to stand right of the middle of its top or bottom.
  roomForTexts() {
    const room = new Map();
    for (const { edge, text, atReader } of this.lines) {
      if (!text) continue;
      const key = atReader ? edge.to : edge.from, wanted = 2 * (widthOf(text, SIZES.edge) + 8 - BOX.margin);
      room.set(key, Math.max(room.get(key) || 0, wanted));
    }
    return this.children.map((box) => room.get(box.key) || 0);
  }

  // Where it stands in the whole picture: { x, y }, its upper left corner.
  get place() {
    let x = 0, y = 0;
    for (let box = this; box.parent; box = box.parent) {
      x += box.x + (box.parent.parent ? BOX.margin : 0);
      y += box.y + (box.parent.parent ? BOX.head : 0);
    }
    return { x, y };
  }
}

// What an edge tells of a TENSOR: its shape, and its dtype where that is not the usual one.
function shapeText(tensor) {
  return tensor.startsWith("float32 ") ? tensor.slice(8) : tensor;
}
