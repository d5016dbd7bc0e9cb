// The pane at the side: what is known of what is selected.

const PANE = { readers: 60, same: 100, tensors: 100, ops: 12, listed: 200 }; // what is listed of each at most

class Pane {
  // Fills ELEMENT; a link calls GO with { graph, row } or { graph, scope }.
  constructor(element, model, go) {
    Object.assign(this, { element, model, go });
  }

  show(...content) {
    this.element.replaceChildren(...present(content));
    requestAnimationFrame(() => { this.element.scrollTop = 0; }); // now it would have the browser lay out everything
  }

  // A heading and what is below it; nothing where there is nothing.
  section(title, ...content) {
    const inside = present(content);
    return inside.length ? [html("h3", {}, title), ...inside] : [];
  }

  // A line that leads to TARGET, by its name or as TEXT, with MORE behind it.
  link(target, text, ...more) {
    const { graph, row, scope } = target;
    const name = row >= 0 ? graph.name(row) : graph.path(scope) || graph.title;
    const click = (event) => {
      event.preventDefault();
      this.go(target);
    };
    return item(html("a", { href: "#", click }, text || printable(name)), ...more);
  }

  // What there is in all.
  overview() {
    const { model } = this, { main } = model, bodies = model.graphs.slice(1);
    const [parameters] = main.raw.scopes.parameters, [flops] = main.raw.scopes.flops;
    const fact = (name, value) => html("div", { class: "fact" }, html("span", {}, name), value);
    this.show(
      html("h2", {}, model.title),
      fact("nodes", main.size.toLocaleString("en")),
      parameters ? fact("parameters", parameters.toLocaleString("en")) : "",
      flops ? fact("FLOPs", rounded(flops)) : "",
      this.section("differences", legendOf(model).map((mark) => item(mark))),
      this.section("ops", this.ops(main, 0)),
      this.section(`functions (${bodies.length})`, bodies.map((body) => this.functionLink(body))),
      this.section("problems", this.faults(model.faults), this.missingFunctions()),
      html("p", { class: "hint" }, "A click opens a scope or selects a node; ? lists the keys."),
    );
  }

  functionLink(body) {
    const site = this.model.callSite(body), text = printable(body.title);
    return site ? this.link({ graph: body, row: -1, scope: 0 }, text) : item(text);
  }

  missingFunctions() {
    const missing = [...this.model.functions].filter(([, found]) => typeof found === "string");
    return missing.map(([name, why]) => html("div", { class: "item fault" }, `${printable(name)}: ${printable(why)}`));
  }

  faults(found) {
    const why = ({ graph, row }) => html("span", { class: "fault" }, ` ${printable(graph.fault(row))}`);
    return found.slice(0, PANE.listed).map((fault) => this.link(fault, "", why(fault)));
  }

  // How many there are of each op in SCOPE.
  ops(graph, scope) {
    const counts = new Map(), inside = graph.within(scope);
    for (let row = 0; row < graph.size; row++) {
      if (inside[graph.scopeOf[row]]) counts.set(graph.op(row), (counts.get(graph.op(row)) || 0) + 1);
    }
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    const out = sorted.slice(0, PANE.ops).map(([op, count]) => `${printable(op)} ${count.toLocaleString("en")}`);
    if (sorted.length > PANE.ops) out.push(`${sorted.length - PANE.ops} other ops`);
    return out.length ? html("div", { class: "item quiet" }, out.join(" · ")) : "";
  }

  node(graph, row) {
    const values = [graph.value(row), graph.statistics(row)].filter(Boolean), outputs = graph.outputs(row);
    const sizes = [];
    if (graph.parameters(row)) sizes.push(item(counted(graph.parameters(row), "parameter")));
    if (graph.flops(row)) sizes.push(item(`${rounded(graph.flops(row))} FLOPs`));
    this.show(
      html("h2", {}, printable(graph.op(row))),
      html("p", { class: "name" }, printable(graph.name(row))),
      this.remarks(graph, row),
      this.section("value", values.map((text) => item(code(text)))),
      this.section("outputs", outputs.slice(0, PANE.listed).map((tensor, slot) => item(`${slot}: `, code(tensor))),
        this.rest(outputs.length - PANE.listed)),
      this.inputs(graph, row),
      this.readers(graph, row),
      this.section("calls", graph.calls(row).map((name) => this.callOf(name))),
      this.section("attrs", this.attrs(graph.attrs(row))),
      this.section("device", graph.device(row) ? code(graph.device(row)) : ""),
      this.section("sizes", sizes),
    );
  }

  // In which function a node is, how it differs, and what is wrong with it.
  remarks(graph, row) {
    const { model } = this, mark = model.mark(graph, row), note = model.note(graph, row), fault = graph.fault(row);
    return [
      graph === model.main ? "" : html("p", { class: "quiet" }, `in function ${printable(graph.title)}`),
      mark ? html("p", {}, markElement(mark, model.legend[mark] || "")) : "",
      note ? html("pre", { class: "note" }, printableLines(note)) : "",
      fault ? html("p", { class: "fault" }, `⚠ ${printable(fault)}`) : "",
    ];
  }

  inputs(graph, row) {
    const inputs = graph.inputs(row), controls = graph.controls(row);
    const left = Math.max(0, inputs.length - PANE.listed) + Math.max(0, controls.length - PANE.listed);
    const tensor = ([producer, slot]) => {
      const value = graph.value(producer), name = printable(graph.name(producer));
      const what = code(graph.tensor(producer, slot) + (value ? ` = ${value}` : ""));
      return this.link({ graph, row: producer }, slot ? `${name}:${slot}` : name, " ", what);
    };
    const order = (producer) => this.link({ graph, row: producer }, `^${printable(graph.name(producer))}`);
    return this.section(`inputs (${inputs.length + controls.length})`, inputs.slice(0, PANE.listed).map(tensor),
      controls.slice(0, PANE.listed).map(order), this.rest(left));
  }

  readers(graph, row) {
    const readers = graph.readers(row);
    const op = (reader) => html("span", { class: "quiet" }, ` ${printable(graph.op(reader))}`);
    return this.section(`consumers (${readers.length})`,
      readers.slice(0, PANE.readers).map((reader) => this.link({ graph, row: reader }, "", op(reader))),
      this.rest(readers.length - PANE.readers));
  }

  attrs(attrs) {
    if (!attrs.length) return "";
    return html("table", {}, attrs.map(([key, value]) =>
      html("tr", {}, html("th", {}, printable(key)), html("td", {}, code(value)))));
  }

  callOf(name) {
    const body = this.model.body(name);
    if (body) return this.functionLink(body);
    return item(`${printable(name)}: ${printable(String(this.model.functions.get(name) || "not shown"))}`);
  }

  rest(count) {
    return count > 0 ? html("div", { class: "item quiet" }, `and ${count.toLocaleString("en")} more`) : "";
  }

  scope(graph, scope) {
    const { model } = this, raw = graph.raw.scopes, kind = graph.kind(scope), inside = graph.within(scope);
    const same = model.repetitions(kind) > 1 ? model.kinds.get(kind) : [];
    const facts = [counted(graph.nodes[scope], "node")];
    if (raw.parameters[scope]) facts.push(counted(raw.parameters[scope], "parameter"));
    if (raw.flops[scope]) facts.push(`${rounded(raw.flops[scope])} FLOPs`);
    const faults = model.faults.filter((fault) => fault.graph === graph && inside[graph.scopeOf[fault.row]]);
    const marks = model.marksIn(graph, scope).map(([mark, count]) => markElement(mark, `${model.legend[mark]} ${count}`));
    const what = graph.isGroup.has(scope) ? "group of neighboring nodes, not a scope: " : scope ? "" : "function: ";
    const output = graph.strings[raw.output[scope]];
    this.show(
      html("h2", {}, printable(scope ? graph.scopeName(scope) : graph.title)),
      html("p", { class: "name" }, printable(scope ? graph.path(scope) : graph.title)),
      html("p", {}, what + facts.join(", ")),
      this.section("output", output ? code(output) : ""),
      this.section("differences", marks.map((mark) => item(mark))),
      this.section("problems", this.faults(faults)),
      this.section(`same structure (${same.length})`,
        same.slice(0, PANE.same).map((other) => this.sameLink(other, graph, scope)),
        this.rest(same.length - PANE.same)),
      this.section("ops", this.ops(graph, scope)),
    );
  }

  sameLink({ graph, scope }, here, hereScope) {
    const place = graph === this.model.main ? "" : ` in ${printable(graph.title)}`;
    const text = printable(graph.path(scope)) + place;
    if (graph === here && scope === hereScope) return html("div", { class: "item here" }, text);
    return this.link({ graph, row: -1, scope }, text);
  }

  // What runs along a line: EDGE of SCOPE.
  edge(graph, scope, edge) {
    const found = graph.tensorsOf(scope, edge, PANE.tensors), all = edge.data + edge.control;
    const pair = ([producer, slot, reader]) => {
      const name = `${slot < 0 ? "^" : ""}${printable(graph.name(producer))}${slot > 0 ? `:${slot}` : ""}`;
      return html("div", { class: "pair" },
        this.link({ graph, row: producer }, name),
        slot < 0 ? "" : code(graph.tensor(producer, slot)),
        this.link({ graph, row: reader }, `→ ${printable(graph.name(reader))}`));
    };
    const title = edge.data ? counted(edge.data, "tensor") : counted(edge.control, "control edge");
    this.show(html("h2", {}, title), found.map(pair), this.rest(all - found.length));
  }
}

// CONTENT without what is empty, however it is nested.
function present(content) {
  return content.flat(Infinity).filter((part) => part !== null && part !== undefined && part !== "");
}

function item(...content) { return html("div", { class: "item" }, ...content); }

function code(text) { return html("code", {}, printable(text)); }

function markElement(mark, text) {
  return html("span", { class: `mark ${MARK_CLASSES[mark] || ""}` }, `${mark} ${printable(text)}`);
}

// TEXT printable, but in lines.
function printableLines(text) {
  return text.split("\n").map(printable).join("\n");
}
