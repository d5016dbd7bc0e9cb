// The keyboard: what each key does, and the list of them under ?.

const KEYS = [
  { keys: ["/"], means: "search; Enter and Shift+Enter go from match to match",
    run: (viewer) => viewer.search.field.select() },
  { keys: ["Escape"], shown: "Esc", means: "leave the search, or select nothing", run: (viewer) => viewer.leave() },
  { keys: ["Enter", "o"], means: "open or close what is selected", run: (viewer) => viewer.toggleSelected() },
  { keys: ["O"], means: "open all in it", run: (viewer) => viewer.openAll() },
  { keys: ["c"], means: "close the scope around what is selected", run: (viewer) => viewer.closeAround() },
  { keys: ["u"], means: "select the scope around what is selected", run: (viewer) => viewer.selectAround() },
  { keys: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"], shown: "↑ ↓ ← →",
    means: "along the lines, or to what stands beside", run: (viewer, key) => viewer.move(key) },
  { keys: ["n"], means: "the next difference, or fault", run: (viewer) => viewer.nextStop(1) },
  { keys: ["N"], means: "the one before", run: (viewer) => viewer.nextStop(-1) },
  { keys: ["s"], means: "the next scope of the same structure", run: (viewer) => viewer.nextSame() },
  { keys: ["+", "="], shown: "+", means: "larger", run: (viewer) => viewer.camera.zoom(1.25) },
  { keys: ["-"], means: "smaller", run: (viewer) => viewer.camera.zoom(0.8) },
  { keys: ["0", "f"], means: "fit all into the window", run: (viewer) => viewer.fit() },
  { keys: ["e"], means: "save what is seen as SVG", run: (viewer) => viewer.exportSvg() },
  { keys: ["d"], means: "dark or light", run: (viewer) => viewer.switchTheme() },
  { keys: ["?"], means: "this list", run: (viewer) => viewer.toggleHelp() },
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
