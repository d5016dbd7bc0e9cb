// Draws boxes as SVG. Each box has a group of its own, moved by its transform, so that what is opened or closed changes
// only itself and the boxes around it.

class Picture {
  // Draws into WORLD, a <g>.
  constructor(world) {
    this.world = world;
    this.boxOf = new WeakMap(); // by group
    this.lineOf = new WeakMap(); // by path: { box, line }
    this.lit = []; // elements that are emphasised for what is selected
    this.overlay = svg("g", { class: "overlay" });
  }

  // Draws BOX anew after it was arranged; of what is in it, what was not drawn yet. What is drawn already is moved, not
  // put in anew: a browser would lay out all that is in it once more.
  draw(box) {
    if (!box.parent) {
      this.drawInside(box, this.world);
      this.world.append(this.overlay);
      return;
    }
    if (!box.group) {
      box.group = svg("g", { "data-name": printable(box.name) });
      box.group.append(svg("g"));
      this.boxOf.set(box.group, box);
    }
    box.group.setAttribute("class", this.classOf(box));
    box.group.firstChild.replaceWith(this.frameOf(box));
    if (!box.isOpen) {
      if (box.content) box.content.remove();
      return;
    }
    if (!box.content) box.content = svg("g", { transform: `translate(${BOX.margin},${BOX.head})` });
    this.drawInside(box, box.content);
    if (!box.content.parentNode) box.group.append(box.content);
  }

  // Draws what is in BOX into INSIDE: lines, the boxes above them, and above these what lines tell.
  drawInside(box, inside) {
    const lines = svg("g", { class: "lines" }), texts = svg("g", { class: "texts" });
    box.paths = new Map(); // by line
    for (const line of box.lines) this.drawLine(box, line, lines, texts);
    lines.append(this.headsOf(box.lines.filter(({ edge }) => edge.data), "head"));
    lines.append(this.headsOf(box.lines.filter(({ edge }) => !edge.data), "head control"));
    for (const child of box.children) this.drawReach(child, lines);
    if (box.left) {
      const label = `+ ${counted(box.left, "more node")}: show ${box.left > BOX.more ? `${BOX.more} of them` : "all"}`;
      texts.append(svg("text", { class: "more", x: box.insideWidth / 2, y: box.insideHeight + 18 }, label));
    }
    let boxes = inside.querySelector(":scope > .boxes");
    if (!boxes) inside.replaceChildren(lines, (boxes = svg("g", { class: "boxes" })), texts);
    else {
      inside.querySelector(":scope > .lines").replaceWith(lines);
      inside.querySelector(":scope > .texts").replaceWith(texts);
    }
    const groups = box.children.map((child) => {
      if (!child.group) this.draw(child);
      child.group.setAttribute("transform", `translate(${fixed(child.x)},${fixed(child.y)})`);
      return child.group;
    });
    const same = groups.length === boxes.childNodes.length && groups.every((group) => group.parentNode === boxes);
    if (!same) boxes.replaceChildren(...groups);
  }

  classOf(box) {
    const { graph, row, scope, model } = box;
    const names = ["box", box.isNode ? "node" : "scope", box.isOpen ? "open" : "closed"];
    if (box.canOpen && box.isNode) names.push("call");
    if (!box.isNode && !box.graph.isGroup.has(scope) && box.key !== box.label && scope === 0) names.push("body");
    if (!box.isNode && graph.isGroup.has(scope)) names.push("group");
    const kind = scope >= 0 && !box.isNode ? model.colours.get(graph.kind(scope)) : undefined;
    if (kind !== undefined) names.push(`kind${kind}`);
    const mark = box.isNode ? model.mark(graph, row) : "";
    if (mark) names.push(MARK_CLASSES[mark]);
    if (box.isNode ? graph.fault(row) : model.faultsIn(graph, scope)) names.push("fault");
    if (!mark && !box.isOpen && this.hasMarks(box)) names.push("marked");
    return names.join(" ");
  }

  // Whether something in BOX differs that does not show: in a closed scope, or in the weights of a node.
  hasMarks(box) {
    const { graph, row, scope, model } = box;
    if (scope >= 0) return model.marksIn(graph, scope).length > 0;
    return graph.weightsOf(row).some((weight) => model.mark(graph, weight.row) || model.mark(graph, weight.source));
  }

  frameOf(box) {
    const { width, height } = box;
    const frame = svg("g", { class: "frame" }, svg("rect", { width, height, rx: box.isNode ? 4 : 8 }));
    const texts = box.isOpen ? this.textsOfOpen(box) : box.texts;
    texts.forEach((text, at) => {
      const y = BOX.line * (at + 1) + 2, attributes = { x: BOX.side, y, class: text.kind };
      const element = svg("text", attributes);
      if (text.marks) this.addCounts(element, text.marks);
      else element.textContent = text.shown;
      frame.append(element);
    });
    return frame;
  }

  textsOfOpen(box) {
    const [first] = box.texts;
    const name = box.isNode && box.label !== box.graph.op(box.row) ? ` ${box.label}` : "";
    const shown = shortened(first.text.replace("▸", "▾") + name, box.width - 2 * BOX.side, SIZES.name, true);
    return [{ shown, kind: "name" }];
  }

  addCounts(element, marks) {
    marks.forEach(({ text, mark }, at) => {
      element.append(svg("tspan", { class: MARK_CLASSES[mark] || "faults" }, `${at ? "  " : ""}${text}`));
    });
  }

  drawLine(box, line, lines, texts) {
    const { edge, points, text, atReader } = line;
    const turned = points[0][1] > points[points.length - 1][1];
    const kind = `line edge${edge.data ? "" : " control"}${turned ? " back" : ""}`;
    const width = edge.data > 1 ? Math.min(3.5, 1.2 + Math.log2(edge.data) * 0.35) : undefined;
    const path = svg("path", { class: kind, d: curve(points), "stroke-width": width && fixed(width) });
    box.paths.set(line, path);
    this.lineOf.set(path, { box, line });
    lines.append(path);
    if (!text) return;
    const [x, y] = points[atReader ? points.length - 1 : 0];
    const down = (atReader ? -10 : 11) * (turned ? -1 : 1);
    texts.append(svg("text", { class: "shape", x: x + 5, y: y + down + (turned ? 3 : 0) }, text));
  }

  // The heads of all LINES: one element for all of a kind, as there are as many as lines.
  headsOf(lines, kind) {
    return svg("path", { class: kind, d: lines.map(({ points }) => headAt(points)).join("") });
  }

  // Short lines at the left of a child that reads from outside of what it lies in, or is read there.
  drawReach(child, lines) {
    if (typeof child.key === "string") return;
    const owner = child.parent.inside;
    const reach = owner ? owner.graph.reachOut(child.key) : 0;
    const x = fixed(child.x + 10);
    const arrow = (top) => svg("path", { class: "reach", d: `M${x} ${fixed(top)}v8m-2.5 -3l2.5 3l2.5 -3` });
    if (reach & 1) lines.append(arrow(child.y - 9));
    if (reach & 2) lines.append(arrow(child.y + child.height + 1));
  }

  // Emphasises BOX and its lines; CURVES are the points of lines that are drawn across the frames between two boxes.
  emphasise(box, curves) {
    for (const element of this.lit) {
      if (element.classList.contains("head")) element.remove();
      else element.classList.remove("selected", "lit");
    }
    this.lit = [];
    this.overlay.replaceChildren(...curves.map((points) => svg("path", { class: "across", d: curve(points) })));
    if (!box || !box.group) return;
    this.light(box.group, "selected");
    for (const line of box.parent.lines) {
      if (line.edge.from === box.key || line.edge.to === box.key) this.emphasiseLine(box.parent, line);
    }
  }

  // Emphasises a LINE in BOX, with a head of its own.
  emphasiseLine(box, line) {
    const path = box.paths.get(line), head = this.headsOf([line], "head lit");
    this.light(path, "lit");
    this.lit.push(head);
    path.parentNode.append(head);
  }

  light(element, name) {
    element.classList.add(name);
    this.lit.push(element);
  }
}

function fixed(number) { return Math.round(number * 10) / 10; }

// A path through POINTS, vertical at each of them.
function curve(points) {
  let d = `M${fixed(points[0][0])} ${fixed(points[0][1])}`;
  for (let at = 1; at < points.length; at++) {
    const [x, y] = points[at - 1], [toX, toY] = points[at];
    if (Math.abs(x - toX) < 0.5) d += `L${fixed(toX)} ${fixed(toY)}`;
    else d += `C${fixed(x)} ${fixed((y + toY) / 2)} ${fixed(toX)} ${fixed((y + toY) / 2)} ${fixed(toX)} ${fixed(toY)}`;
  }
  return d;
}

// The head of a line through POINTS, at their end.
function headAt(points) {
  const [x, y] = points[points.length - 1], upwards = points[0][1] > y;
  return `M${fixed(x)} ${fixed(y)}l-3.5 ${upwards ? 7 : -7}h7z`;
}
