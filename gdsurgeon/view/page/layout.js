// Where the children of one scope stand, and how the lines between them run.
//
// layout(sizes, edges, options) is a pure function, and deterministic: ties go to the lower index, sorts are stable.
//   sizes    [[width, height], ...]: of each child
//   edges    [[from, to], ...]: indices into sizes, from !== to, no pair twice; cycles are allowed
//   options  what of LAYOUT is to be otherwise
// It returns { x, y, width, height, lines }: the centre of each child, the size of all of it, and for each edge the
// points that its line runs through, from the child it leaves to the child it enters; between two points that are not
// one above the other the line bends with vertical ends.
//
// Parts that no edge joins are laid out each on its own and packed side by side, so that children without edges make a
// grid. A part is layered (Sugiyama, Tagawa and Toda, 1981): back edges are turned round, layers by the longest path,
// lines through several layers get a bend in each (one for all that leave the same child, like the branches of a
// bus), the order in a layer by barycentres, x by isotonic regression (pool adjacent violators) towards the neighbours.

const LAYOUT = {
  gapX: 20,      // between two children of a layer
  gapY: 30,      // between two layers, at least
  slant: 0.05,   // how much further two layers are apart for each unit that a line between them runs sideways ...
  mostSlant: 60, // ... at most
  bendWidth: 6,  // what a line takes in a layer that it passes
  longest: 60,   // layers that a line may pass; a longer one runs straight
  sweeps: 8,     // over all layers, for the order
  pulls: 14,     // over all layers, for x; the last six towards both sides
  bendPull: 0.2, // how much a bend pulls a child towards itself, of what another child does
  portGap: 10,   // between the ends of two lines at the top of a child, at most
};

function layout(sizes, edges, options = {}) {
  const settings = { ...LAYOUT, ...options };
  const parts = componentsOf(sizes.length, edges).map((part) => layeredPart(part, sizes, edges, settings));
  return packedParts(parts, sizes.length, edges.length, settings);
}

// The parts that no edge joins, in the order of their first child: { nodes, edges } as indices.
function componentsOf(count, edges) {
  const root = Int32Array.from({ length: count }, (_, node) => node);
  const find = (node) => {
    while (root[node] !== node) node = root[node] = root[root[node]];
    return node;
  };
  for (const [from, to] of edges) {
    const a = find(from), b = find(to);
    root[Math.max(a, b)] = Math.min(a, b);
  }
  const parts = new Map();
  for (let node = 0; node < count; node++) {
    const first = find(node);
    if (first === node) parts.set(node, { nodes: [], edges: [] });
    parts.get(first).nodes.push(node);
  }
  edges.forEach(([from], index) => parts.get(find(from)).edges.push(index));
  return [...parts.values()];
}

// One part, laid out by itself: { nodes, edges, x, y, width, height, lines }.
function layeredPart(part, sizes, edges, settings) {
  const count = part.nodes.length;
  const widths = part.nodes.map((node) => sizes[node][0]), heights = part.nodes.map((node) => sizes[node][1]);
  if (count === 1) {
    return { ...part, x: [widths[0] / 2], y: [heights[0] / 2], width: widths[0], height: heights[0], lines: [] };
  }
  const local = new Map(part.nodes.map((node, index) => [node, index]));
  const arcs = withoutCycles(count, part.edges.map((index) => edges[index].map((node) => local.get(node))));
  const layer = layersOf(count, arcs);
  const items = withBends(count, arcs, layer, widths, heights, settings);
  orderLayers(items, settings);
  placeAcross(items, settings);
  const { tops, height } = placeDown(items, settings);
  return { ...part, ...linesOf(items, arcs, tops), height };
}

// EDGES as arcs { from, to, turned } that make no cycle: an edge that closes one on a depth-first walk is turned round.
function withoutCycles(count, edges) {
  const leaving = Array.from({ length: count }, () => []), entered = new Uint8Array(count);
  edges.forEach(([from, to], index) => {
    leaving[from].push(index);
    entered[to] = 1;
  });
  const all = Array.from({ length: count }, (_, node) => node);
  const starts = [...all.filter((node) => !entered[node]), ...all];
  const state = new Uint8Array(count), next = new Int32Array(count); // state: 0 not met, 1 on the walk, 2 done
  const arcs = edges.map(([from, to]) => ({ from, to, turned: false }));
  for (const start of starts) {
    if (state[start]) continue;
    const walk = [start];
    state[start] = 1;
    while (walk.length) {
      const node = walk[walk.length - 1];
      if (next[node] === leaving[node].length) {
        state[node] = 2;
        walk.pop();
        continue;
      }
      const index = leaving[node][next[node]++], to = edges[index][1];
      if (state[to] === 1) arcs[index] = { from: to, to: node, turned: true };
      if (state[to] === 0) {
        state[to] = 1;
        walk.push(to);
      }
    }
  }
  return arcs;
}

// The layer of each child: the longest path to it; then what gives more than it takes goes down to its first reader.
function layersOf(count, arcs) {
  const readers = Array.from({ length: count }, () => []), taken = new Int32Array(count);
  for (const { from, to } of arcs) {
    readers[from].push(to);
    taken[to]++;
  }
  const layer = new Int32Array(count), left = taken.slice(), order = [];
  for (let node = 0; node < count; node++) if (!left[node]) order.push(node);
  for (let at = 0; at < order.length; at++) {
    for (const to of readers[order[at]]) {
      layer[to] = Math.max(layer[to], layer[order[at]] + 1);
      if (!--left[to]) order.push(to);
    }
  }
  for (const node of order.reverse()) {
    if (!readers[node].length || readers[node].length < taken[node]) continue;
    layer[node] = Math.max(layer[node], -largest(readers[node].map((to) => -layer[to])) - 1);
  }
  return layer;
}

// The children and the bends of the lines between them, by layers. The arcs get `bends`, those that they pass.
function withBends(count, arcs, layer, widths, heights, settings) {
  const items = {
    count, // of the children; bends come behind
    layer: [...layer], widths: [...widths], heights: [...heights],
    above: Array.from({ length: count }, () => []), below: Array.from({ length: count }, () => []),
    layers: Array.from({ length: largest(layer) + 1 }, () => []),
    x: [],
  };
  const bends = Array.from({ length: count }, () => []); // of the lines that leave a child, layer by layer
  const join = (upper, lower) => {
    items.below[upper].push(lower);
    items.above[lower].push(upper);
  };
  for (const arc of arcs) {
    const span = layer[arc.to] - layer[arc.from], own = bends[arc.from];
    arc.bends = [];
    if (span > settings.longest) continue;
    while (own.length < span - 1) {
      const bend = items.layer.length;
      items.layer.push(layer[arc.from] + own.length + 1);
      items.widths.push(settings.bendWidth);
      items.heights.push(0);
      items.above.push([]);
      items.below.push([]);
      join(own.length ? own[own.length - 1] : arc.from, bend);
      own.push(bend);
    }
    arc.bends = own.slice(0, span - 1);
    join(span > 1 ? own[span - 2] : arc.from, arc.to);
  }
  return items;
}

// Fills the layers depth-first, which keeps chains together, then orders each by the barycentres of its neighbours.
function orderLayers(items, settings) {
  const { layer, layers, above, below } = items;
  const seen = new Uint8Array(layer.length), place = new Float64Array(layer.length);
  const walkFrom = (start) => {
    const walk = [start];
    while (walk.length) {
      const item = walk.pop();
      if (seen[item]) continue;
      seen[item] = 1;
      layers[layer[item]].push(item);
      for (let at = below[item].length - 1; at >= 0; at--) walk.push(below[item][at]);
    }
  };
  for (let item = 0; item < layer.length; item++) if (!above[item].length) walkFrom(item);
  for (let item = 0; item < layer.length; item++) walkFrom(item);
  const number = (row) => row.forEach((item, at) => { place[item] = row.length > 1 ? at / (row.length - 1) : 0.5; });
  layers.forEach(number);
  const wanted = new Float64Array(layer.length);
  for (let sweep = 0; sweep < settings.sweeps; sweep++) {
    const down = sweep % 2 === 0;
    for (const row of down ? layers : [...layers].reverse()) {
      for (const item of row) wanted[item] = mean((down ? above : below)[item], place, place[item]);
      row.sort((a, b) => wanted[a] - wanted[b] || place[a] - place[b]);
      number(row);
    }
  }
}

// The largest of VALUES, however many; 0 of none.
function largest(values) {
  let out = values.length ? values[0] : 0;
  for (const value of values) if (value > out) out = value;
  return out;
}

function mean(items, values, otherwise) {
  if (!items.length) return otherwise;
  let sum = 0;
  for (const item of items) sum += values[item];
  return sum / items.length;
}

// Sets x: of each child and bend as near to its neighbours as the order and the widths in its layer let it.
function placeAcross(items, settings) {
  const { layers, widths, above, below, count } = items;
  const x = items.x = new Float64Array(items.layer.length);
  for (const row of layers) {
    let right = 0;
    for (const item of row) {
      x[item] = right + widths[item] / 2;
      right += widths[item] + settings.gapX;
    }
    for (const item of row) x[item] -= right / 2;
  }
  for (let pull = 0; pull < settings.pulls; pull++) {
    const down = pull % 2 === 0, both = pull >= settings.pulls - 6;
    for (const row of down ? layers : [...layers].reverse()) {
      const wanted = [], weights = [];
      for (const item of row) {
        const near = (down ? above : below)[item], far = (down ? below : above)[item], isBend = item >= count;
        let sum = 0, weight = 0;
        for (const neighbours of both ? [near, far] : [near]) {
          for (const other of neighbours) {
            // A chain of children stays straight where a line from further away joins it.
            const pull = isBend || other < count ? 1 : settings.bendPull;
            sum += pull * x[other];
            weight += pull;
          }
        }
        wanted.push(weight ? sum / weight : x[item]);
        // Long lines are kept straight but for their ends; what has no neighbour there gives way.
        const isEnd = isBend && (near.some((other) => other < count) || (both && far.some((other) => other < count)));
        weights.push(!weight ? 0.05 : isEnd ? 0.3 : isBend ? 4 : 1 + weight);
      }
      placeRow(row, wanted, weights, widths, x, settings.gapX);
    }
  }
}

// Sets x of a ROW to what is nearest to WANTED (least squares) without overlaps: isotonic regression of what is wanted
// less what must lie to the left.
function placeRow(row, wanted, weights, widths, x, gap) {
  const offsets = [], blocks = [];
  let right = 0;
  row.forEach((item, at) => {
    offsets.push(right + widths[item] / 2);
    right += widths[item] + gap;
    let block = { sum: (wanted[at] - offsets[at]) * weights[at], weight: weights[at], length: 1 };
    while (blocks.length) {
      const before = blocks[blocks.length - 1];
      if (before.sum / before.weight <= block.sum / block.weight) break;
      blocks.pop();
      block = {
        sum: before.sum + block.sum, weight: before.weight + block.weight, length: before.length + block.length,
      };
    }
    blocks.push(block);
  });
  let at = 0;
  for (const block of blocks) {
    for (let left = block.length; left; left--, at++) x[row[at]] = block.sum / block.weight + offsets[at];
  }
}

// Sets y: { tops, height }, of each layer where it begins and ends, and of all. Where lines run far sideways there is
// more room between two layers.
function placeDown(items, settings) {
  const { layers, heights, below, x } = items;
  const tops = [];
  let top = 0, height = 0;
  items.y = new Float64Array(items.layer.length);
  for (const row of layers) {
    let tall = 0, sideways = 0;
    for (const item of row) {
      tall = Math.max(tall, heights[item]);
      for (const next of below[item]) sideways = Math.max(sideways, Math.abs(x[item] - x[next]));
    }
    for (const item of row) items.y[item] = top + tall / 2;
    tops.push([top, top + tall]);
    height = top + tall;
    top = height + settings.gapY + Math.min(settings.mostSlant, settings.slant * sideways);
  }
  items.portGap = settings.portGap;
  return { tops, height };
}

// { x, y, width, lines } of a part whose left end is at 0.
function linesOf(items, arcs, tops) {
  const { count, layer, widths, heights } = items;
  let left = Infinity, right = -Infinity;
  items.x.forEach((x, item) => {
    left = Math.min(left, x - widths[item] / 2);
    right = Math.max(right, x + widths[item] / 2);
  });
  const x = [...items.x].map((value) => value - left), y = [...items.y].slice(0, count);
  const lines = arcs.map((arc) => {
    const points = [[x[arc.from], y[arc.from] + heights[arc.from] / 2]];
    for (const bend of arc.bends) points.push([x[bend], tops[layer[bend]][0]], [x[bend], tops[layer[bend]][1]]);
    points.push([x[arc.to], y[arc.to] - heights[arc.to] / 2]);
    return points;
  });
  spreadEnds(arcs, lines, widths, items.portGap);
  arcs.forEach((arc, index) => { if (arc.turned) lines[index].reverse(); });
  return { x: x.slice(0, count), y, width: right - left, lines };
}

// Draws apart the ends of lines that enter the same child, from left to right as they come.
function spreadEnds(arcs, lines, widths, portGap) {
  const entering = new Map();
  arcs.forEach((arc, index) => {
    if (!entering.has(arc.to)) entering.set(arc.to, []);
    entering.get(arc.to).push(lines[index]);
  });
  for (const [node, ends] of entering) {
    const comesFrom = (line) => line[line.length - 2][0];
    ends.sort((a, b) => comesFrom(a) - comesFrom(b));
    const gap = Math.min(portGap, (widths[node] * 0.7) / ends.length);
    ends.forEach((line, at) => { line[line.length - 1][0] += (at - (ends.length - 1) / 2) * gap; });
  }
}

// Puts parts side by side, the tallest first, in shelves about as wide as all of it is high; short ones are stacked.
function packedParts(parts, nodeCount, edgeCount, settings) {
  const { gapX, gapY } = settings;
  const out = { x: new Array(nodeCount), y: new Array(nodeCount), width: 0, height: 0, lines: new Array(edgeCount) };
  const sorted = [...parts].sort((a, b) => b.height - a.height);
  const area = (part) => (part.width + gapX) * (part.height + gapY);
  let rest = sorted.reduce((sum, part) => sum + area(part), 0);
  const most = Math.max(1.4 * Math.sqrt(rest), largest(parts.map((part) => part.width)));
  let shelf = 0, shelfHeight = 0, column = 0, columnWidth = 0, columnHeight = 0, tallest = 0;
  sorted.forEach((part, index) => {
    const isLast = column + columnWidth + gapX + part.width > most; // no column has room behind this one
    const fits = index > 0 && columnHeight + gapY + part.height <= (isLast ? shelfHeight : tallest)
      && column + part.width <= most;
    if (index > 0 && !fits) {
      column += columnWidth + gapX;
      columnWidth = columnHeight = 0;
      tallest = Math.min(shelfHeight, Math.max(part.height, Math.sqrt(rest)));
    }
    if (index > 0 && column + part.width > most) {
      shelf += shelfHeight + gapY;
      column = columnWidth = columnHeight = shelfHeight = 0;
    }
    if (!shelfHeight) tallest = shelfHeight = part.height;
    const top = shelf + (columnHeight ? columnHeight + gapY : 0);
    putPart(part, column, top, out);
    columnWidth = Math.max(columnWidth, part.width);
    columnHeight = top - shelf + part.height;
    rest -= area(part);
    out.width = Math.max(out.width, column + part.width);
    out.height = Math.max(out.height, top + part.height);
  });
  return out;
}

function putPart(part, left, top, out) {
  part.nodes.forEach((node, at) => {
    out.x[node] = left + part.x[at];
    out.y[node] = top + part.y[at];
  });
  part.edges.forEach((edge, at) => { out.lines[edge] = part.lines[at].map(([x, y]) => [left + x, top + y]); });
}
