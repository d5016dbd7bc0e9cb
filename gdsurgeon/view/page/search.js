// The search: scopes, nodes and ops whose names a regular expression matches.

const SEARCH = { most: 200, scopes: 40 };

class Search {
  // FIELD is the <input>, LIST what shows the matches; GO is called with { graph, row } or { graph, scope }.
  constructor(field, list, model, go) {
    Object.assign(this, { field, list, model, go, matches: [], at: -1 });
    field.addEventListener("input", () => this.run());
    list.addEventListener("click", (event) => {
      const match = event.target.closest("[data-at]");
      if (match) this.goTo(Number(match.dataset.at));
    });
  }

  run() {
    const pattern = this.field.value;
    this.matches = [];
    this.at = -1;
    this.field.classList.remove("wrong");
    this.list.replaceChildren();
    this.list.hidden = !pattern;
    if (!pattern) return;
    let expression;
    try {
      // As people type: capitals count only where there is one.
      expression = new RegExp(pattern, /[A-Z]/.test(pattern.replace(/\\./g, "")) ? "" : "i");
    } catch (error) {
      this.field.classList.add("wrong");
      this.list.append(html("p", { class: "fault" }, `Invalid regular expression: ${printable(error.message)}`));
      return;
    }
    this.find(expression);
    this.showMatches();
  }

  find(expression) {
    let found = 0;
    for (const graph of this.model.graphs) {
      for (let scope = 1; scope < graph.scopes; scope++) {
        if (!graph.drawn[scope] || !expression.test(graph.scopeName(scope))) continue;
        if (found++ < SEARCH.scopes) this.matches.push({ graph, row: -1, scope });
      }
    }
    let shown = Math.min(found, SEARCH.scopes);
    for (const graph of this.model.graphs) {
      for (let row = 0; row < graph.size; row++) {
        if (!expression.test(graph.op(row)) && !expression.test(graph.name(row))) continue;
        found++;
        if (shown++ < SEARCH.most) this.matches.push({ graph, row });
      }
    }
    this.found = found;
  }

  showMatches() {
    const of = this.found > this.matches.length ? `, first ${this.matches.length} shown` : "";
    const items = this.matches.map(({ graph, row, scope }, at) => {
      const name = row >= 0 ? graph.name(row) : `▸ ${graph.path(scope)}`;
      const where = graph === this.model.main ? "" : ` in ${graph.title}`;
      const more = row >= 0 ? graph.op(row) + where : where;
      return html("button", { type: "button", class: "match", "data-at": at, title: printable(name) },
        html("span", {}, printable(name)), html("span", { class: "quiet" }, ` ${printable(more)}`));
    });
    const sum = this.found ? `${counted(this.found, "match").replace("matchs", "matches")}${of}` : "no matches";
    this.list.replaceChildren(html("p", { class: "quiet" }, sum), ...items);
  }

  // Goes to the next match, or with STEP -1 the one before.
  step(step) {
    const count = this.matches.length;
    if (count) this.goTo(this.at < 0 ? (step > 0 ? 0 : count - 1) : (this.at + step + count) % count);
  }

  goTo(at) {
    this.at = at;
    for (const match of this.list.querySelectorAll(".match")) {
      match.classList.toggle("here", Number(match.dataset.at) === at);
    }
    const here = this.list.querySelector(".here");
    if (here) here.scrollIntoView({ block: "nearest" });
    this.go(this.matches[at]);
  }

  clear() {
    this.field.value = "";
    this.run();
    this.field.blur();
  }
}
