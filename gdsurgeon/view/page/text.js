// Texts, and the elements that hold them. What a model says is only ever text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";
const FONT = 'system-ui, "DejaVu Sans", sans-serif';

// TEXT with control characters, separators other than the space, lone surrogates and what has no glyph escaped, as in
// the messages of the program: a name must not turn the direction of a line, nor end it.
function printable(text) {
  return text.replace(/[\p{C}\p{Z}]/gu, (character) => {
    if (character === " ") return character;
    const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
    if (short) return short;
    const code = character.codePointAt(0), digits = code.toString(16);
    if (code < 0x100) return `\\x${digits.padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
  });
}

// 1234567 as 1.2 M.
function rounded(number) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= size) return `${(number / size).toFixed(1)} ${unit}`;
  }
  return String(number);
}

function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

const rulers = new Map(); // by font: what measures, and widths: the same few texts come again and again

// How wide TEXT is in pixels, as picture.css shows it: of SIZE pixels, bold or not.
function widthOf(text, size, bold = false) {
  const key = bold ? -size : size;
  let ruler = rulers.get(key);
  if (!ruler) {
    ruler = { context: document.createElement("canvas").getContext("2d"), widths: new Map() };
    ruler.context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    rulers.set(key, ruler);
  }
  let width = ruler.widths.get(text);
  if (width === undefined) {
    width = ruler.context.measureText(text).width;
    if (ruler.widths.size > 20000) ruler.widths.clear();
    ruler.widths.set(text, width);
  }
  return width;
}

// TEXT, shortened so that it takes at most MOST pixels; its end tells names apart better than its middle.
function shortened(text, most, size, bold = false) {
  if (text.length < 400 && widthOf(text, size, bold) <= most) return text;
  const letters = Array.from(text.length > 400 ? `${text.slice(0, 200)}${text.slice(-200)}` : text);
  let low = 0, high = letters.length;
  const cut = (kept) => `${letters.slice(0, Math.ceil(kept * 0.6)).join("")}…${
    letters.slice(letters.length - Math.floor(kept * 0.4)).join("")}`;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(cut(middle), size, bold) <= most) low = middle;
    else high = middle - 1;
  }
  return cut(low);
}

// An HTML element: attributes by name, functions for events, then what is in it: elements and texts.
function html(name, attributes = {}, ...inside) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(inside));
  return element;
}

// An SVG element with ATTRIBUTES, and what is in it.
function svg(name, attributes = {}, ...inside) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(key, typeof value === "number" ? Math.round(value * 10) / 10 : value);
  }
  element.append(...inside);
  return element;
}
