// Where the arrow keys lead from a box.

// The box that lies from BOX in DIRECTION: up and down along its lines, left and right to what stands beside it.
function neighbour(box, direction) {
  const parent = box.parent;
  if (direction === "ArrowUp" || direction === "ArrowDown") {
    const up = direction === "ArrowUp", near = new Set();
    for (const { edge } of parent.lines) {
      if (edge[up ? "to" : "from"] === box.key) near.add(parent.child(edge[up ? "from" : "to"]));
    }
    const found = nearest(box, [...near].filter((other) => (other.y < box.y) === up));
    const lies = (other) => (up ? other.y + other.height <= box.y : other.y >= box.y + box.height);
    return found || nearest(box, besides(box, lies));
  }
  const left = direction === "ArrowLeft";
  const overlaps = (other) => other.y < box.y + box.height && other.y + other.height > box.y;
  return nearest(box, besides(box, (other) => overlaps(other) && (left ? other.x < box.x : other.x > box.x)));
}

function besides(box, fits) {
  return box.parent.children.filter((other) => other !== box && fits(other));
}

function nearest(box, others) {
  const distance = (other) => Math.hypot(
    other.x + other.width / 2 - box.x - box.width / 2, other.y + other.height / 2 - box.y - box.height / 2);
  let best = null;
  for (const other of others) if (!best || distance(other) < distance(best)) best = other;
  return best;
}
