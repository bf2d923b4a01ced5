/** How much room there is, for the style sheet and for the picture. */

import { host } from "./host.js";

/** What the style sheet knows of the room: a page in a notebook is narrower than its window. */
export function sized() {
  const width = host.page.clientWidth;
  for (const [name, most] of [["narrow", 900], ["small", 480]]) host.page.classList.toggle(name, width <= most);
}

/** The device pixels of a main picture before the first is there, less than axes and side charts leave. */
export function firstRoom(panels) {
  const width = panels.clientWidth || host.page.clientWidth;
  const [across, down] = width < 520 ? [190, 425] : [250, 400];
  const pixels = (size) => Math.floor(Math.max(150, Math.min(size, 2400)) * (devicePixelRatio || 1));
  return { w: pixels(width - across), h: pixels(host.height() - down) };
}

/** Whether a picture made for `screen`, where that has fewer pixels than numbers, does not suit `room`. */
export function unfit(frame, screen, room) {
  const sizes = Object.values(frame.arrays).flatMap(({ shape }) => shape);
  return ["w", "h"].some((side) => {
    const [has, needs] = [screen[side], room[side] ?? screen[side]];
    const limited = sizes.includes(has) || sizes.some((size) => size > needs);
    return limited && (has > needs || has < needs * 0.9);
  });
}
