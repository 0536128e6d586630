// What somebody does: label, confirm, undo, change classes. Labels show at once; the server's word
// is the last, and where somebody else was faster, both are shown.

import { get, post } from "./api.js";
import { announce, counted, toast } from "./dom.js";
import { askConflict } from "./dialogs.js";
import { chosen, focusOn, isOnScreen, lookedAt } from "./grid.js";
import { changed, classOf, isAnswered, labelOf, load, state, takeLabels, versionOf } from "./state.js";
import { view } from "./views.js";

export function failed(error) {
  toast(error.message, { bad: true });
}

export const seen = (places) => Object.fromEntries(places.map((place) => [place, versionOf(place)]));

const ours = new Map(); // place -> the last version of its label that this page made itself
let last = Promise.resolve();

/** Do one thing after the other, in the order in which they were asked for. */
function inTurn(work) {
  const turn = last.then(work);
  last = turn.catch(() => {});
  return turn;
}

/** Say of each place what it is: a Map of place -> class id, or null for no label. */
export async function labelEach(wishes) {
  const places = [...wishes.keys()];
  if (!places.length) return;
  const before = new Map(places.map((place) => [place, state.labels.get(place)]));
  const known = seen(places);
  const lookedNow = lookedAt().slice(0, 2000);
  for (const [place, id] of wishes) state.labels.set(place, [id, known[place]]);
  changed();
  const ids = new Set(wishes.values());
  const body = ids.size === 1 ? { class_id: [...ids][0] } : { classes: Object.fromEntries(wishes) };
  try {
    const done = await inTurn(() => {
      // What this page did meanwhile was seen; what others did was not.
      const items = Object.fromEntries(places.map((place) => [place, Math.max(known[place], ours.get(place) ?? 0)]));
      return post("/api/label", { ...body, items, looked_at: lookedNow });
    });
    for (const [place, id] of wishes) {
      ours.set(place, done.revision);
      if (versionOf(place) < done.revision && labelOf(place) === id) state.labels.set(place, [id, done.revision]);
    }
    if (places.length > 1) toast(done.title, { action: ["Undo", undo] });
    else announce(done.title);
  } catch (error) {
    for (const [place, row] of before) {
      if (versionOf(place) !== known[place]) continue; // news have come meanwhile
      if (row) state.labels.set(place, row);
      else state.labels.delete(place);
    }
    changed();
    if (error.status === 409) await settle(error, wishes);
    else failed(error);
  }
}

/** Show what somebody else did, and let the user decide. */
async function settle(error, wishes) {
  takeLabels(error.conflicts);
  for (const [place] of error.conflicts) ours.delete(place);
  changed();
  const decision = await askConflict(error.conflicts, wishes);
  if (decision === "mine") return labelEach(wishes);
  if (decision === "rest") {
    const theirs = new Set(error.conflicts.map(([place]) => place));
    return labelEach(new Map([...wishes].filter(([place]) => !theirs.has(place))));
  }
}

/** Label what is selected, or what has the focus; then go on to the next open item. */
export async function label(id) {
  const places = selection();
  if (!places.length || isAway(places)) return;
  await labelAs(places, id);
}

/** Label the selected items, which are given; `stay` goes on without scrolling. */
export async function labelAs(places, id, { stay = false } = {}) {
  const work = labelEach(new Map(places.map((place) => [place, id])));
  if (places.length === 1) next({ stay });
  else chosen.places.clear();
  await work;
}

export const selection = () => {
  if (chosen.places.size) return view.order.filter((place) => chosen.places.has(place));
  const place = view.order[chosen.focus];
  return place === undefined ? [] : [place];
};

/** A key must not label what nobody sees: a single item that was scrolled away is shown first. */
function isAway(places) {
  const rank = view.order.indexOf(places[0]);
  if (places.length > 1 || isOnScreen(rank)) return false;
  focusOn(rank);
  changed();
  toast("This item was chosen: press again, or click another");
  return true;
}

/** Agree with the answers of what is selected. */
export async function confirm() {
  const selected = selection();
  const places = selected.filter(isAnswered);
  if (!places.length && selected.some((place) => labelOf(place) !== null)) return goOn();
  if (!places.length) return toast("Nothing to confirm here: this has no answer yet");
  if (isAway(places)) return;
  const work = labelEach(new Map(places.map((place) => [place, state.best[place]])));
  if (places.length === 1) next();
  else chosen.places.clear();
  await work;
}

/** What has a label needs no word: go on to what has none. */
function goOn() {
  next();
  changed();
}

function next({ stay = false } = {}) {
  const { order } = view;
  for (let rank = chosen.focus + 1; rank < order.length; rank++) {
    if (labelOf(order[rank]) === null) return focusOn(rank, { stay });
  }
  focusOn(Math.min(chosen.focus + 1, order.length - 1), { stay });
}

/** Change something, and offer to undo it unless that makes no sense. */
async function does(path, body, canUndo = true) {
  try {
    const done = await inTurn(() => post(path, body));
    toast(done.title, canUndo ? { action: ["Undo", undo] } : {});
    return done;
  } catch (error) {
    failed(error);
    return null;
  }
}

export const undo = () => does("/api/undo", {}, false);
export const redo = () => does("/api/redo", {}, false);
export const addClass = (name) => does("/api/classes", { name });
export const renameClass = (id, name) => does(`/api/classes/${id}/rename`, { name });
export const mergeClass = (id, into) => does(`/api/classes/${id}/merge`, { into });
export const deleteClass = (id) => does(`/api/classes/${id}/delete`, {});
export const useFolders = () => does("/api/folders", {});

/** Sort the files into folders; these stay, whatever is undone. */
export async function sortFiles(by) {
  toast("Sorting files …");
  try {
    const done = await post("/api/export/folders", { by });
    const left = done.left_out;
    const names = `${left.slice(0, 3).join(", ")}${left.length > 3 ? `, and ${left.length - 3} more` : ""}`;
    const there = done.there ? `; ${counted(done.there, "file")} ${done.there === 1 ? "was" : "were"} there already` : "";
    toast(`${counted(done.done, "file")} sorted into ${done.folder}${there}${left.length ? `; left out, as gone or unreadable: ${names}` : ""}`, { bad: left.length > 0 });
  } catch (error) {
    failed(error);
  }
}

/** Load everything anew, unless `isWanted` says no by the time that it is there. */
export async function reload(isWanted) {
  const told = await get("/api/state");
  if (!isWanted()) return;
  load(told);
  if (told.trouble) toast(told.trouble, { bad: true });
}

export const nameOf = (id) =>
  id === null ? "no label" : id === state.limits.aside ? "none of these" : (classOf(id)?.name ?? "a class that is gone");
