// The keyboard: what each key does, and the list of them under ?.

const KEYS = [
  { keys: ["/"], means: "search; Enter and Shift+Enter move between matches",
    run: (viewer) => viewer.search.field.select() },
  { keys: ["Escape"], shown: "Esc", means: "close the search or clear the selection", run: (viewer) => viewer.leave() },
  { keys: ["Enter", "o"], means: "open or close the selection", run: (viewer) => viewer.toggleSelected() },
  { keys: ["O"], means: "open everything in the selection", run: (viewer) => viewer.openAll() },
  { keys: ["c"], means: "close the enclosing scope", run: (viewer) => viewer.closeAround() },
  { keys: ["u"], means: "select the enclosing scope", run: (viewer) => viewer.selectAround() },
  { keys: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"], shown: "↑ ↓ ← →",
    means: "follow an edge, or move to a neighbor", run: (viewer, key) => viewer.move(key) },
  { keys: ["n"], means: "go to the next difference or fault", run: (viewer) => viewer.nextStop(1) },
  { keys: ["N"], means: "go to the previous one", run: (viewer) => viewer.nextStop(-1) },
  { keys: ["s"], means: "go to the next scope with the same structure", run: (viewer) => viewer.nextSame() },
  { keys: ["+", "="], shown: "+", means: "larger", run: (viewer) => viewer.camera.zoom(1.25) },
  { keys: ["-"], means: "smaller", run: (viewer) => viewer.camera.zoom(0.8) },
  { keys: ["0", "f"], means: "fit the graph into the window", run: (viewer) => viewer.fit() },
  { keys: ["e"], means: "save the current view as SVG", run: (viewer) => viewer.exportSvg() },
  { keys: ["d"], means: "switch between dark and light", run: (viewer) => viewer.switchTheme() },
  { keys: ["?"], means: "show this list", run: (viewer) => viewer.toggleHelp() },
];

function listenToKeys(viewer) {
  const byKey = new Map(KEYS.flatMap((entry) => entry.keys.map((key) => [key, entry])));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === viewer.search.field) {
      if (event.key === "Enter") viewer.search.step(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") viewer.search.clear();
      return;
    }
    const onControl = event.target.closest && event.target.closest("button, a, summary");
    if (onControl && (event.key === "Enter" || event.key === " ")) return; // these have their own use of it
    const entry = byKey.get(event.key);
    if (!entry) return;
    event.preventDefault();
    entry.run(viewer, event.key);
  });
}

function helpList() {
  return html("table", {}, KEYS.map(({ keys, shown, means }) => html("tr", {},
    html("th", {}, (shown ? shown.split(" ") : keys).map((key) => html("kbd", {}, key))), html("td", {}, means))));
}
