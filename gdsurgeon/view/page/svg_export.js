// The picture as an SVG file that needs nothing else: all that is opened, in the colours that are seen.

// Not every program that shows SVG knows variables of CSS: they are replaced by what they stand for.
function styleWithoutVariables() {
  const probe = html("i");
  document.body.append(probe);
  const style = document.getElementById("picture-style").textContent.replace(/var\((--[\w-]+)\)/g, (_, name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return style;
}

// The text of the SVG file that shows WORLD, of WIDTH by HEIGHT.
function svgText(world, width, height, title) {
  const edge = 16, picture = world.cloneNode(true);
  picture.removeAttribute("transform");
  picture.querySelectorAll(".overlay, .more, .head.lit, path title").forEach((element) => element.remove());
  picture.querySelectorAll(".selected, .lit").forEach((element) => element.classList.remove("selected", "lit"));
  const size = { width: Math.ceil(width + 2 * edge), height: Math.ceil(height + 2 * edge) };
  const root = svg("svg", { ...size, viewBox: `${-edge} ${-edge} ${size.width} ${size.height}` });
  root.append(svg("title", {}, title), svg("style", {}, styleWithoutVariables()));
  root.append(svg("rect", { class: "paper", x: -edge, y: -edge, ...size }), picture);
  return new XMLSerializer().serializeToString(root);
}

function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  html("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
