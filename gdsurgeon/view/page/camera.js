// What part of the picture is seen, and how large.

class Camera {
  // Moves WORLD, a <g>, in VIEW, an <svg>.
  constructor(view, world) {
    Object.assign(this, { view, world, x: 0, y: 0, scale: 1, moved: 0 });
    const { width, height } = view.getBoundingClientRect();
    this.size = { width, height }; // kept: to ask for it makes the browser lay out what was just drawn
    new ResizeObserver(([entry]) => {
      this.size = { width: entry.contentRect.width, height: entry.contentRect.height };
    }).observe(view);
    view.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { left, top } = view.getBoundingClientRect();
      const factor = Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)); // by lines, or by pixels
      this.zoom(factor, event.clientX - left, event.clientY - top);
    }, { passive: false });
    view.addEventListener("pointerdown", (event) => this.drag(event));
  }

  apply() {
    const place = `translate(${fixed(this.x)},${fixed(this.y)})`;
    this.world.setAttribute("transform", `${place} scale(${this.scale.toFixed(4)})`);
  }

  // Zooms by FACTOR around a point of the view, its middle if none is given.
  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    const scale = Math.min(6, Math.max(0.01, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  }

  // The picture follows the pointer; `moved` says afterwards how far it went: a click does not.
  drag(down) {
    if (down.button !== 0) return;
    const { x, y } = this;
    this.moved = 0;
    const move = (event) => {
      if (event.pointerId !== down.pointerId) return;
      const byX = event.clientX - down.clientX, byY = event.clientY - down.clientY;
      this.moved = Math.max(this.moved, Math.abs(byX) + Math.abs(byY));
      if (this.moved < 4) return;
      this.x = x + byX;
      this.y = y + byY;
      this.apply();
    };
    const up = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
      window.removeEventListener("pointercancel", up);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", up);
  }

  // Shows all of WIDTH by HEIGHT; with READABLE as much of its upper part as can be read.
  fit(width, height, readable = false) {
    const size = this.size, edge = 24;
    const across = (size.width - 2 * edge) / Math.max(1, width), down = (size.height - 2 * edge) / Math.max(1, height);
    this.scale = Math.min(1.25, across, down);
    if (readable && this.scale < 0.7) this.scale = Math.max(this.scale, Math.min(0.9, Math.max(0.6, across)));
    this.x = Math.max(edge, (size.width - width * this.scale) / 2);
    if (width * this.scale > size.width) this.x = (size.width - width * this.scale) / 2;
    this.y = Math.max(edge, (size.height - height * this.scale) / 2);
    this.apply();
  }

  // Moves so that the point of the picture at X, Y comes to a point of the view.
  put(x, y, viewX, viewY) {
    this.x = viewX - x * this.scale;
    this.y = viewY - y * this.scale;
    this.apply();
  }

  // Shows what stands at X, Y and is of WIDTH by HEIGHT in the middle, or its upper left part where it is too large.
  centre(x, y, width, height) {
    const size = this.size;
    if (this.scale < 0.6) this.scale = 0.9;
    const viewWidth = Math.min(width * this.scale, size.width - 60);
    const viewHeight = Math.min(height * this.scale, size.height - 60);
    this.put(x, y, (size.width - viewWidth) / 2, (size.height - viewHeight) / 2);
  }

  // Moves as little as is needed for the same to be seen; of what is too large, the upper left part.
  follow(x, y, width, height) {
    const edge = 20;
    const shift = (begin, extent, most) => {
      const end = begin + Math.min(extent, most - 2 * edge);
      return begin < edge ? edge - begin : Math.min(0, most - edge - end);
    };
    this.x += shift(x * this.scale + this.x, width * this.scale, this.size.width);
    this.y += shift(y * this.scale + this.y, height * this.scale, this.size.height);
    this.apply();
  }
}
