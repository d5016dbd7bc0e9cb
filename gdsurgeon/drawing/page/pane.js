// The pane at the side: what is known of what is selected.

const PANE = { readers: 60, same: 100, tensors: 100, ops: 12, listed: 200 };

class Pane {
  // Fills ELEMENT; a link calls GO with { graph, row } or { graph, scope }.
  constructor(element, model, go) {
    Object.assign(this, { element, model, go });
  }

  show(...content) {
    this.element.replaceChildren(...content.flat(Infinity).filter((item) => item !== null && item !== ""));
    requestAnimationFrame(() => { this.element.scrollTop = 0; }); // now it would have the browser lay out everything
  }

  section(title, ...content) {
    const inside = content.flat(Infinity).filter((item) => item !== null && item !== "");
    return inside.length ? [html("h3", {}, title), ...inside] : [];
  }

  link(target, text, ...more) {
    const name = target.row >= 0 ? target.graph.name(target.row) : target.graph.path(target.scope) || target.graph.title;
    const go = (event) => {
      event.preventDefault();
      this.go(target);
    };
    return html("div", { class: "item" }, html("a", { href: "#", click: go }, text || printable(name)), ...more);
  }

  // What there is in all.
  overview() {
    const { model } = this, { main } = model, [parameters, flops] = [main.raw.scopes.parameters[0], main.raw.scopes.flops[0]];
    const bodies = model.graphs.slice(1);
    const fact = (name, value) => html("div", { class: "fact" }, html("span", {}, name), value);
    this.show(
      html("h2", {}, model.title),
      fact("nodes", main.size.toLocaleString("en")),
      parameters ? fact("parameters", parameters.toLocaleString("en")) : "",
      flops ? fact("FLOPs", rounded(flops)) : "",
      this.section("differences", ...legendOf(model).map((mark) => html("div", { class: "item" }, mark))),
      this.section("ops", ...this.ops(main, 0)),
      this.section(`functions (${bodies.length})`, ...bodies.map((body) => this.functionLink(body))),
      this.section("what is wrong", ...this.faults(model.faults), ...this.missingFunctions()),
      html("p", { class: "hint" }, "A click opens a scope or selects a node; ? lists the keys."),
    );
  }

  functionLink(body) {
    const site = this.model.callSite(body), text = printable(body.title);
    return site ? this.link({ graph: body, row: -1, scope: 0 }, text) : html("div", { class: "item" }, text);
  }

  missingFunctions() {
    return [...this.model.functions].filter(([, found]) => typeof found === "string").map(([name, why]) =>
      html("div", { class: "item fault" }, `${printable(name)}: ${printable(why)}`));
  }

  faults(found) {
    return found.slice(0, PANE.listed).map(({ graph, row }) =>
      this.link({ graph, row }, "", html("span", { class: "fault" }, ` ${printable(graph.fault(row))}`)));
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
    return [html("div", { class: "item quiet" }, out.join(" · "))];
  }

  node(graph, row) {
    const { model } = this, mark = model.mark(graph, row), fault = graph.fault(row);
    const inputs = graph.inputs(row), controls = graph.controls(row), readers = graph.readers(row);
    const outputs = graph.outputs(row);
    const code = (text) => html("code", {}, printable(text));
    const input = ([producer, slot]) =>
      this.link({ graph, row: producer }, slot ? `${printable(graph.name(producer))}:${slot}` : "", " ",
        code(graph.tensor(producer, slot)), graph.value(producer) ? html("code", { class: "value" }, ` = ${printable(graph.value(producer))}`) : "");
    this.show(
      html("h2", {}, printable(graph.op(row))),
      html("p", { class: "name" }, printable(graph.name(row))),
      graph === model.main ? "" : html("p", { class: "quiet" }, `in the function ${printable(graph.title)}`),
      mark ? html("p", {}, html("span", { class: `mark ${MARK_CLASSES[mark]}` }, `${mark} ${printable(model.legend[mark] || "")}`)) : "",
      model.note(graph, row) ? html("pre", { class: "note" }, printableLines(model.note(graph, row))) : "",
      fault ? html("p", { class: "fault" }, `⚠ ${printable(fault)}`) : "",
      this.section("value", [graph.value(row), graph.statistics(row)].filter(Boolean).map((text) => html("div", { class: "item" }, code(text)))),
      this.section("outputs", outputs.slice(0, PANE.listed).map((tensor, slot) => html("div", { class: "item" }, `${slot}: `, code(tensor))),
        this.rest(outputs.length - PANE.listed)),
      this.section(`inputs (${inputs.length + controls.length})`, inputs.slice(0, PANE.listed).map(input),
        controls.slice(0, PANE.listed).map((producer) => this.link({ graph, row: producer }, `^${printable(graph.name(producer))}`)),
        this.rest(Math.max(0, inputs.length - PANE.listed) + Math.max(0, controls.length - PANE.listed))),
      this.section(`read by (${readers.length})`,
        readers.slice(0, PANE.readers).map((reader) => this.link({ graph, row: reader }, "", html("span", { class: "quiet" }, ` ${printable(graph.op(reader))}`))),
        this.rest(readers.length - PANE.readers)),
      this.section("calls", graph.calls(row).map((name) => this.callOf(name))),
      this.section("attrs", this.attrs(graph.attrs(row))),
      this.section("device", graph.device(row) ? code(graph.device(row)) : ""),
      this.section("sizes", graph.parameters(row) ? html("div", { class: "item" }, `${graph.parameters(row).toLocaleString("en")} parameters`) : "",
        graph.flops(row) ? html("div", { class: "item" }, `${rounded(graph.flops(row))} FLOPs`) : ""),
    );
  }

  attrs(attrs) {
    if (!attrs.length) return "";
    return html("table", {}, attrs.map(([key, value]) =>
      html("tr", {}, html("th", {}, printable(key)), html("td", {}, html("code", {}, printable(value))))));
  }

  callOf(name) {
    const body = this.model.body(name);
    if (body) return this.functionLink(body);
    return html("div", { class: "item" }, `${printable(name)}: ${printable(String(this.model.functions.get(name) || "not shown"))}`);
  }

  rest(count) { return count > 0 ? html("div", { class: "item quiet" }, `and ${count.toLocaleString("en")} more`) : ""; }

  scope(graph, scope) {
    const { model } = this, raw = graph.raw.scopes, kind = graph.kind(scope);
    const same = model.repetitions(kind) > 1 ? model.kinds.get(kind) : [];
    const facts = [counted(graph.nodes[scope], "node")];
    if (raw.parameters[scope]) facts.push(`${raw.parameters[scope].toLocaleString("en")} parameters`);
    if (raw.flops[scope]) facts.push(`${rounded(raw.flops[scope])} FLOPs`);
    const inside = graph.within(scope);
    const faults = model.faults.filter((fault) => fault.graph === graph && inside[graph.scopeOf[fault.row]]);
    const marks = model.marksIn(graph, scope).map(([mark, count]) =>
      html("div", { class: "item" }, html("span", { class: `mark ${MARK_CLASSES[mark]}` }, `${mark} ${printable(model.legend[mark])} ${count}`)));
    const name = scope ? graph.path(scope) : graph.title;
    this.show(
      html("h2", {}, printable(scope ? graph.scopeName(scope) : graph.title)),
      html("p", { class: "name" }, printable(name)),
      html("p", {}, `${graph.isGroup.has(scope) ? "a group of neighbours, no scope: " : scope ? "" : "a function: "}${facts.join(", ")}`),
      this.section("gives", graph.strings[raw.output[scope]] ? html("code", {}, printable(graph.strings[raw.output[scope]])) : ""),
      this.section("differences", marks),
      this.section("what is wrong", this.faults(faults)),
      this.section(`the same structure (${same.length})`,
        same.slice(0, PANE.same).map((other) => this.sameLink(other, graph, scope)), this.rest(same.length - PANE.same)),
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
    this.show(
      html("h2", {}, edge.data ? counted(edge.data, "tensor") : counted(edge.control, "control edge")),
      found.map(([producer, slot, reader]) => html("div", { class: "pair" },
        this.link({ graph, row: producer }, `${slot < 0 ? "^" : ""}${printable(graph.name(producer))}${slot > 0 ? `:${slot}` : ""}`),
        slot < 0 ? "" : html("code", {}, printable(graph.tensor(producer, slot))),
        this.link({ graph, row: reader }, `→ ${printable(graph.name(reader))}`))),
      this.rest(all - found.length),
    );
  }
}

// TEXT printable, but in lines.
function printableLines(text) {
  return text.split("\n").map(printable).join("\n");
}
