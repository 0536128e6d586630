// The grid of items: only the cards on and near the screen exist, however many items there are.

import { isTextFile, makeCard, updateCard } from "./card.js";
import { $ } from "./dom.js";
import { state } from "./state.js";
import { chosen, view } from "./views.js";

const SHAPES = {
  image: { minWidth: 170, gap: 14, height: (width) => Math.round(width * 0.82) + 62 },
  text: { minWidth: 300, gap: 12, height: () => (areShort() ? 114 : 172) },
  audio: { minWidth: 280, gap: 12, height: () => 128 },
  table: { minWidth: 260, gap: 12, height: () => Math.min(Math.max(lines(), 2), 9) * 22 + 74 },
};
/** The lines that a table row takes: a text takes two, and one for its name. */
const lines = () => Object.values(state.columns).reduce((sum, isText) => sum + (isText ? 3 : 1), 0);
const TWO_LINES = 72; // characters
let known = { names: null, short: false };
/** Whether nearly all texts fit into two lines; the names of table rows are their texts. */
function areShort() {
  if (known.names !== state.names) {
    const long = state.names.filter((name) => isTextFile(name) || name.length > TWO_LINES).length;
    known = { names: state.names, short: long < state.names.length / 20 };
  }
  return known.short;
}
const BEYOND = 2; // rows above and below the screen that also exist

const cards = new Map(); // place -> card
let shape = { columns: 1, width: 200, height: 200, gap: 12, top: 0, screen: 0 };

/** Measure the grid at the start of a frame: after changes, each reading would force a layout.
 * If the size of cards changes with the window, the items on the screen stay there. */
export function measure() {
  const { minWidth, gap, height } = SHAPES[state.modality];
  const { clientWidth, clientHeight: screen, scrollTop: top } = $("grid");
  const inside = clientWidth - 2 * 20;
  const narrow = inside < 480;
  const columns = Math.max(state.modality === "image" && narrow ? 2 : 1, Math.floor((inside + gap) / (minWidth + gap)));
  const width = (inside - gap * (columns - 1)) / columns;
  const before = shape;
  shape = { columns, width, height: height(width), gap, top, screen };
  if (top > 0 && (before.columns !== columns || before.height !== shape.height)) stayAt(before, top);
}

function stayAt(before, top) {
  const step = before.height + before.gap;
  const first = Math.floor(top / step) * before.columns;
  const focus = Math.floor(chosen.focus / before.columns) * step;
  const kept = focus >= top - step && focus < top + before.screen ? chosen.focus : first;
  const below = Math.max(0, Math.floor(kept / before.columns) * step - top); // from the top of the screen
  $("rows").style.height = `${heightOf(view.order.length)}px`;
  $("grid").scrollTop = topOf(kept) - Math.min(below, Math.max(0, shape.screen - shape.height));
  shape.top = $("grid").scrollTop;
}

export function toTop() {
  $("grid").scrollTop = 0;
  shape.top = 0;
}

const topOf = (rank) => Math.floor(rank / shape.columns) * (shape.height + shape.gap);
const heightOf = (count) => Math.max(0, topOf(count - 1) + shape.height);

/** The range of ranks that are on or near the screen: the first, and one beyond the last. */
function range() {
  const step = shape.height + shape.gap;
  const first = Math.max(0, Math.floor(shape.top / step) - BEYOND);
  const last = Math.ceil((shape.top + shape.screen) / step) + BEYOND;
  return [first * shape.columns, Math.min(view.order.length, last * shape.columns)];
}

export const lookedAt = () => view.order.slice(...range());

export function draw() {
  const { order } = view;
  const rows = $("rows");
  const height = `${heightOf(order.length)}px`;
  if (rows.style.height !== height) rows.style.height = height;
  const [from, to] = range();
  const needed = new Set(order.slice(from, to));
  for (const [place, card] of cards) {
    if (!needed.has(place)) {
      card.remove();
      cards.delete(place);
    }
  }
  for (let rank = from; rank < to; rank++) {
    const place = order[rank];
    let card = cards.get(place);
    if (!card) {
      card = makeCard(place);
      cards.set(place, card);
      rows.append(card);
    }
    const left = (rank % shape.columns) * (shape.width + shape.gap);
    const where = `${left} ${topOf(rank)} ${shape.width} ${shape.height}`;
    if (card.where !== where) {
      card.where = where;
      card.style.transform = `translate(${left}px, ${topOf(rank)}px)`;
      card.style.width = `${shape.width}px`;
      card.style.height = `${shape.height}px`;
    }
    const selected = chosen.places.has(place);
    updateCard(card, place, { selected, focused: rank === chosen.focus, at: rank, of: order.length });
  }
  const focus = order[chosen.focus];
  const active = cards.has(focus) ? `item-${focus}` : null;
  if ($("grid").getAttribute("aria-activedescendant") === active) return;
  if (active) $("grid").setAttribute("aria-activedescendant", active);
  else $("grid").removeAttribute("aria-activedescendant");
}

/** Remove an item's card; the next frame draws a new one. */
export function remove(place) {
  cards.get(place)?.remove();
  cards.delete(place);
}

/** Remove all cards, after the items have changed. */
export function clear() {
  for (const card of cards.values()) card.remove();
  cards.clear();
}

/** Whether an item is at least partly on the screen; one of a new view: as soon as that is drawn. */
export function isOnScreen(rank) {
  const { scrollTop, clientHeight } = $("grid");
  const [top, from] = [topOf(rank), view.moved ? 0 : scrollTop];
  return top + shape.height > from && top < from + clientHeight;
}

export function reveal(rank) {
  const grid = $("grid");
  const top = topOf(rank);
  if (top < grid.scrollTop) grid.scrollTop = Math.max(0, top - 20);
  else if (top + shape.height > grid.scrollTop + grid.clientHeight - 24)
    grid.scrollTop = top + shape.height - grid.clientHeight + 48;
}

/** Move the focus by some items or rows; with `extend`, select all from the anchor. */
export function move(by, { extend = false, rows = false } = {}) {
  focusOn(chosen.focus + by * (rows ? shape.columns : 1), { extend });
}

export function focusOn(rank, { extend = false, add = false, stay = false } = {}) {
  const { order } = view;
  if (!order.length) return;
  chosen.focus = Math.max(0, Math.min(order.length - 1, rank));
  if (extend) {
    const [from, to] = [chosen.anchor, chosen.focus].sort((a, b) => a - b);
    if (!add) chosen.places.clear();
    for (const place of order.slice(from, to + 1)) chosen.places.add(place);
  } else {
    chosen.anchor = chosen.focus;
    if (add) toggle(order[chosen.focus]);
    else chosen.places = new Set([order[chosen.focus]]);
  }
  if (!stay) reveal(chosen.focus);
}

function toggle(place) {
  if (!chosen.places.delete(place)) chosen.places.add(place);
}

export const rowsOnScreen = () => Math.max(1, Math.floor($("grid").clientHeight / (shape.height + shape.gap)));
