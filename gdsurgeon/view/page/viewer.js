// What a person does, and what the page does then: the one object that knows all the others.

const START = {
  shown: 45,   // boxes that are seen at first, about
  repeated: 2, // a structure that is there more often stays closed
};
const MOST_OPENED = 400; // boxes that "open all" opens at once

class Viewer {
  // ELEMENTS by their ids in page.html.
  constructor(model, elements) {
    Object.assign(this, { model, elements, selected: null });
    this.root = new Box(model, null, model.main, null, { scope: 0 });
    this.root.isOpen = true;
    this.picture = new Picture(elements.world);
    this.camera = new Camera(elements.view, elements.world);
    this.pane = new Pane(elements.pane, model, (target) => this.reveal(target));
    this.search = new Search(elements.search, elements.matches, model, (target) => this.reveal(target));
    this.round = new Round(model);
    elements.view.addEventListener("click", (event) => this.click(event));
    elements.view.addEventListener("pointerover", (event) => this.hover(event));
    listenToKeys(this);
  }

  start() {
    this.openAtFirst();
    this.arrange(this.root);
    this.picture.draw(this.root);
    this.camera.fit(this.root.insideWidth, this.root.insideHeight, true);
    this.pane.overview();
  }

  // Opens what is large and happens once, level by level, until about START.shown boxes are seen.
  openAtFirst() {
    let seen = this.root.keys.length;
    const waiting = [this.root];
    for (const box of waiting) { // it grows meanwhile
      const keys = box.keys.length > BOX.most ? [] : box.keys;
      for (const child of keys.map((key) => box.child(key))) {
        if (child.isNode) continue;
        const count = child.keys.length, alone = keys.length === 1;
        const repeated = this.model.repetitions(child.graph.kind(child.scope)) > START.repeated;
        if (!alone && (repeated || seen + count > START.shown)) continue;
        child.isOpen = true;
        seen += count;
        waiting.push(child);
      }
    }
  }

  // Lays out BOX and all open boxes in it, the innermost first.
  arrange(box) {
    const open = [box];
    for (const outer of open) for (const child of outer.boxes.values()) if (child.isOpen) open.push(child);
    for (const inner of open.reverse()) inner.arrange();
  }

  // Lays out and draws the boxes around BOX, and it; what is elsewhere stays as it is.
  changed(box) {
    for (let outer = box; outer; outer = outer.parent) outer.arrange();
    for (let outer = box; outer; outer = outer.parent) this.picture.draw(outer);
    this.emphasise();
  }

  // As `changed`, while BOX stays where it is seen.
  changedInPlace(box) {
    const before = box.place, { x, y, scale } = this.camera;
    this.changed(box);
    const after = box.place;
    this.camera.put(after.x, after.y, before.x * scale + x, before.y * scale + y);
  }

  click(event) {
    if (this.camera.moved >= 4 || !(event.target instanceof Element)) return;
    const group = event.target.closest(".box"), box = group && this.picture.boxOf.get(group);
    const onTitle = event.target.closest("text") !== null;
    if (event.target.closest(".more")) return this.showMore(box || this.root);
    const line = !box || (box.isOpen && !onTitle) ? this.lineNear(event) : null;
    if (line) return this.selectLine(this.picture.lineOf.get(line));
    if (!box) return this.selectNothing();
    if (box.canOpen && (!box.isOpen || onTitle)) {
      this.toggle(box);
      if (box.isOpen) this.follow(box);
    }
    return this.select(box);
  }

  // The line that was hit, or just missed: they are thin.
  lineNear({ target, clientX, clientY }) {
    if (target.closest(".line")) return target.closest(".line");
    for (const [x, y] of [[-2, 0], [2, 0], [0, -2], [0, 2], [-4, 0], [4, 0], [0, -4], [0, 4]]) {
      const found = document.elementFromPoint(clientX + x, clientY + y);
      if (found && found.closest(".line")) return found.closest(".line");
    }
    return null;
  }

  showMore(box) {
    box.shown += box.left > BOX.more ? BOX.more : box.left;
    if (box.parent) this.changedInPlace(box);
    else this.changed(box);
  }

  toggle(box) {
    box.isOpen = !box.isOpen;
    if (box.isOpen) this.arrange(box);
    this.changedInPlace(box);
  }

  toggleSelected() {
    const box = this.selected && this.selected.box;
    if (!box || !box.canOpen) return;
    this.toggle(box);
    this.select(box);
    this.follow(box);
  }

  // Opens all scopes in what is selected, or in all, until MOST_OPENED are open; bodies of functions too.
  openAll() {
    const box = (this.selected && this.selected.box) || this.root, waiting = [box];
    let left = MOST_OPENED;
    for (const outer of waiting) {
      if (!outer.canOpen || left-- <= 0) continue;
      outer.isOpen = true;
      waiting.push(...outer.keys.slice(0, outer.shown).map((key) => outer.child(key)).filter((child) => child.canOpen));
    }
    this.redraw(box);
  }

  // Lays out and draws BOX and all in it.
  redraw(box) {
    this.arrange(box);
    this.forget(box);
    if (box.parent) this.changedInPlace(box);
    else this.changed(box);
  }

  // Has what is in BOX drawn anew when it is drawn.
  forget(box) {
    const waiting = [...box.boxes.values()];
    for (const child of waiting) {
      child.group = child.content = null;
      waiting.push(...child.boxes.values());
    }
  }

  closeAround() {
    const box = this.selected && this.selected.box.parent;
    if (!box || !box.parent) return;
    this.toggle(box);
    this.select(box);
    this.follow(box);
  }

  selectAround() {
    const box = this.selected && this.selected.box.parent;
    if (!box || !box.parent) return;
    this.select(box);
    this.follow(box);
  }

  move(key) {
    const start = this.selected ? this.selected.box : null;
    const box = start ? neighbour(start, key) : this.root.children[0];
    if (!box) return;
    this.select(box);
    this.follow(box);
  }

  follow(box) {
    const { x, y } = box.place;
    this.camera.follow(x, y, box.width, box.height);
  }

  // Selects BOX; the pane tells of ROW, a weight that is a line in it, if that is given.
  select(box, row = box.row) {
    this.selected = { box };
    if (row >= 0) this.pane.node(box.graph, row);
    else this.pane.scope(box.graph, box.scope);
    this.emphasise();
  }

  selectNothing() {
    this.selected = null;
    this.pane.overview();
    this.emphasise();
  }

  selectLine({ box, line }) {
    this.selected = null;
    this.emphasise();
    this.picture.emphasiseLine(box, line);
    this.pane.edge(box.inside.graph, box.inside.scope, line.edge);
  }

  emphasise() {
    const box = this.selected && this.selected.box;
    this.picture.emphasise(box, box ? this.linesAcross(box) : []);
  }

  // The lines of a node that lead out of the scope that it lies in, to boxes that are seen.
  linesAcross(box) {
    if (!box.isNode) return [];
    const { graph, row } = box, own = box.place, most = 60, curves = [];
    const add = (other, upper, lower) => {
      if (!other || other === box || other.parent === box.parent) return;
      const from = upper || other.place, to = lower || other.place;
      const [above, below] = upper ? [box, other] : [other, box];
      curves.push([[from.x + above.width / 2, from.y + above.height], [to.x + below.width / 2, to.y]]);
    };
    for (const [producer] of graph.inputs(row).slice(0, most)) {
      if (!graph.hidden[producer]) add(this.seen(box, producer), null, own);
    }
    for (const reader of graph.readers(row).slice(0, most)) add(this.seen(box, reader), own, null);
    return curves;
  }

  // The box that stands for ROW in the picture: the innermost that is seen, in the same instance of a body as BOX.
  seen(box, row) {
    let container = box.parent;
    while (!container.isNode && container.scope > 0) container = container.parent;
    return this.descend(container, this.idsTo(box.graph, row), false);
  }

  // The ids from the outermost scope that holds ROW to itself.
  idsTo(graph, row, scope = graph.scopeOf[row]) {
    const ids = row >= 0 ? [row] : [];
    for (let inner = scope; inner > 0; inner = graph.parentOf[inner]) ids.unshift(-1 - inner);
    return ids;
  }

  // Follows IDS into BOX: what they lead to, or what of it is seen. With OPEN what is closed on the way is opened.
  descend(box, ids, open) {
    for (let at = 0; at < ids.length;) {
      if (open) box.revealed.add(ids[at]);
      else if (!box.children.some((other) => other.key === ids[at])) return null;
      const child = box.child(ids[at]);
      // One box may stand for several scopes in one another, and for the only node in them.
      while (at < ids.length && this.standsFor(child, ids[at])) at++;
      box = child;
      if (at === ids.length || box.isNode || (!box.isOpen && !open)) return box;
      box.isOpen = true;
    }
    return box;
  }

  standsFor(box, id) {
    if (id >= 0) return box.row === id;
    for (let scope = box.scope; scope > 0; scope = box.graph.parentOf[scope]) {
      if (-1 - scope === id) return true;
      if (-1 - scope === box.key) return false;
    }
    return false;
  }

  // Opens what is around a node or a scope, selects it, and brings it into view.
  reveal({ graph, row = -1, scope = -1 }) {
    const drawn = row >= 0 ? this.drawnFor(graph, row) : -1;
    const container = this.containerOf(graph);
    if (!container) return;
    const ids = row >= 0 ? this.idsTo(graph, drawn) : this.idsTo(graph, -1, scope);
    const box = ids.length ? this.descend(container, ids, true) : container;
    this.openAround(box);
    this.select(box, row >= 0 ? row : undefined);
    const { x, y } = box.place;
    this.camera.centre(x, y, box.width, box.height);
    this.camera.apply();
  }

  openAround(box) {
    for (let outer = box.parent; outer; outer = outer.parent) outer.isOpen = true;
    this.changed(box);
  }

  // The node in which ROW is a line, where it is a weight; else itself.
  drawnFor(graph, row) {
    const met = new Set();
    while (graph.hidden[row] && !met.has(row)) {
      met.add(row);
      row = graph.readers(row).find((reader) => graph.inputs(reader).some(([producer]) => producer === row));
    }
    return row;
  }

  // The box in which the children of GRAPH are seen: the whole picture, or a call that is opened for it.
  containerOf(graph) {
    if (graph === this.model.main) return this.root;
    const site = this.model.callSite(graph), outer = site && this.containerOf(site.graph);
    if (!outer) return null;
    const call = this.descend(outer, this.idsTo(site.graph, this.drawnFor(site.graph, site.row)), true);
    if (call.inside && call.inside.graph === graph) {
      call.isOpen = true;
      return call;
    }
    if (!call.bodies.includes(graph)) return null; // it is seen only in itself
    call.isOpen = true;
    const body = call.child(graph.title);
    body.isOpen = true;
    return body;
  }

  nextStop(step) {
    const stop = this.round.go(step);
    if (stop) this.reveal(stop);
  }

  nextSame() {
    const box = this.selected && this.selected.box;
    if (!box || box.isNode) return;
    const same = this.model.kinds.get(box.graph.kind(box.scope)) || [];
    const at = same.findIndex(({ graph, scope }) => graph === box.graph && scope === box.scope);
    if (same.length > 1) this.reveal({ row: -1, ...same[(at + 1) % same.length] });
  }

  // Tells what a line is when the pointer comes to it: titles for all of them would be half of the picture.
  hover(event) {
    const line = event.target instanceof Element && event.target.closest(".line");
    if (!line || line.querySelector("title")) return;
    const { box, line: { edge } } = this.picture.lineOf.get(line), { graph } = box.inside;
    const tensor = edge.several ? counted(edge.data, "tensor") : graph.tensor(edge.row, edge.slot);
    const what = edge.data ? tensor : "control edge";
    const name = (key) => box.child(key).label;
    line.append(svg("title", {}, printable(`${name(edge.from)} → ${name(edge.to)}\n${what}`).replace("\\n", "\n")));
  }

  fit() { this.camera.fit(this.root.insideWidth, this.root.insideHeight); }

  leave() {
    if (this.elements.help.open) this.elements.help.close();
    else if (this.search.field.value) this.search.clear();
    else this.selectNothing();
  }

  toggleHelp() {
    if (this.elements.help.open) this.elements.help.close();
    else this.elements.help.showModal();
  }

  exportSvg() {
    const { root, model } = this;
    const text = svgText(this.elements.world, root.insideWidth, root.insideHeight, model.title);
    download(`${model.title.replace(/[^\w.-]+/g, "_") || "model"}.svg`, text, "image/svg+xml");
  }

  switchTheme() {
    const style = document.documentElement.style;
    const dark = style.colorScheme ? style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    style.colorScheme = dark ? "light" : "dark";
  }
}
