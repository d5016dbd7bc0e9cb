// Reads the model and starts the page.

async function main() {
  const element = (id) => document.getElementById(id);
  const model = new Model(await unpacked(element("data").textContent));
  element("data").remove(); // its memory is worth more
  const elements = Object.fromEntries(
    ["view", "world", "pane", "search", "matches", "help"].map((id) => [id, element(id)]));
  const viewer = new Viewer(model, elements);
  element("help-keys").append(helpList());
  element("legend").append(...legendOf(model));
  const facts = [counted(model.main.size, "node")], [parameters] = model.main.raw.scopes.parameters;
  if (parameters) facts.push(`${rounded(parameters)} parameters`);
  element("facts").textContent = facts.join(" · ");
  if (model.faults.length) {
    const round = new Round({ ...model, marks: new Map() }), click = () => viewer.reveal(round.go(1));
    const attributes = { type: "button", class: "fault", title: "go to the next fault", click };
    element("legend").append(html("button", attributes, `⚠ ${model.faults.length}`));
  }
  const buttons = {
    "fit-button": () => viewer.fit(), "save-button": () => viewer.exportSvg(),
    "theme-button": () => viewer.switchTheme(), "help-button": () => viewer.toggleHelp(),
    "next-button": () => viewer.nextStop(1),
  };
  for (const [id, run] of Object.entries(buttons)) element(id).addEventListener("click", run);
  element("next-button").hidden = !model.marks.size;
  viewer.start();
  document.documentElement.dataset.state = "ready";
  performance.mark("ready"); // for who measures
}

main().catch((error) => {
  document.documentElement.dataset.state = "failed";
  document.getElementById("pane").textContent = `This page cannot be shown here: ${error.message}`;
  throw error;
});
