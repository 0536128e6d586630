// User actions: label, confirm, undo, change classes. Labels show at once, before the server has
// confirmed them; where somebody else labelled the same items first, the user decides.

import { get, post } from "./api.js";
import { announce, counted, toast } from "./dom.js";
import { askConflict } from "./dialogs.js";
import { focusOn, isOnScreen, lookedAt } from "./grid.js";
import { changed, classOf, expectAnswers, failureOf, isAnswered, labelOf, load, noteChecked, state, takeChanges, takeLabels, versionOf } from "./state.js";
import { chosen, view } from "./views.js";

export function failed(error) {
  toast(error.message, { bad: true });
}

export const seen = (places) => Object.fromEntries(places.map((place) => [place, versionOf(place)]));

const ours = new Map(); // place -> the version of its label that this page wrote last
let last = Promise.resolve();

/** Run actions one after the other, in the order in which they were started. */
function inTurn(work) {
  const turn = last.then(work);
  last = turn.catch(() => {});
  return turn;
}

/** Label items: `wishes` is a Map of place -> class id, or null to remove the label.
 * Resolves with whether this was saved. */
export async function labelEach(wishes, origin = "chosen") {
  const places = [...wishes.keys()];
  if (!places.length) return true;
  const before = new Map(places.map((place) => [place, state.labels.get(place)]));
  const known = seen(places);
  const lookedNow = lookedAt().slice(0, 2000);
  for (const [place, id] of wishes) state.labels.set(place, [id, known[place]]);
  changed();
  const ids = new Set(wishes.values());
  const body = ids.size === 1 ? { class_id: [...ids][0] } : { classes: Object.fromEntries(wishes) };
  try {
    const done = await expectAnswers(() => inTurn(async () => {
      // What this page wrote meanwhile has been seen by the user; what others wrote has not.
      const items = Object.fromEntries(places.map((place) => [place, Math.max(known[place], ours.get(place) ?? 0)]));
      const saved = await post("/api/label", { ...body, items, origin, looked_at: lookedNow });
      for (const place of places) ours.set(place, saved.revision); // before the next turn reads it
      return saved;
    }));
    for (const [place, id] of wishes) {
      if (versionOf(place) < done.revision && labelOf(place) === id) state.labels.set(place, [id, done.revision]);
    }
    if (origin === "checked") noteChecked(places);
    if (places.length > 1) toast(done.title, { action: ["Undo", undo] });
    else announce(done.title);
    return true;
  } catch (error) {
    for (const [place, row] of before) {
      if (versionOf(place) !== known[place]) continue; // an event has changed it meanwhile
      if (row) state.labels.set(place, row);
      else state.labels.delete(place);
    }
    changed();
    if (error.status === 409) return settle(error, wishes, origin);
    toast(`Not saved: ${named(places)}. ${error.message}`, { bad: true });
    return false;
  }
}

const named = (places) =>
  `${places.slice(0, 3).map((place) => state.names[place]).join(", ")}${places.length > 3 ? ` and ${places.length - 3} more` : ""}`;

/** Show the labels of others that conflict, and let the user decide. */
async function settle(error, wishes, origin) {
  takeLabels(error.conflicts);
  for (const [place] of error.conflicts) ours.delete(place);
  changed();
  const decision = await askConflict(error.conflicts, wishes);
  if (decision === "mine") return labelEach(wishes, origin);
  const theirs = new Set(error.conflicts.map(([place]) => place));
  const rest = new Map([...wishes].filter(([place]) => !theirs.has(place)));
  if (decision === "rest") return labelEach(rest, origin);
  if (rest.size) toast(`Nothing was labelled, neither the ${counted(rest.size, "item")} that nobody else changed`, { bad: true });
  return rest.size === 0; // otherwise the user keeps theirs
}

/** How labels come about, which decides their use in the accuracy estimate; see the server's `Origin`. */
function originOf(wishes) {
  const all = [...wishes];
  if (view.name === "flagged" && all.every(([place, id]) => id !== null && id === labelOf(place))) return "checked";
  if (all.length > 1 && all.every(([place]) => chosen.sure.has(place))) return "confirmed";
  return ["next", "doubtful"].includes(view.name) ? "suggested" : "chosen";
}

/** Label the selected items, or the focused one; then go on to the next item without a label. */
export async function label(id) {
  const places = selection();
  if (!places.length || isAway(places)) return;
  await labelAs(places, id);
}

/** Label the given items, and go on to the next one; `stay` does not scroll to it. */
export async function labelAs(selected, id, { stay = false } = {}) {
  const isClass = id !== null && id !== state.limits.aside;
  const places = isClass ? selected.filter((place) => !failureOf(place)) : selected;
  if (places.length < selected.length) warnUnreadable(selected.filter(failureOf));
  if (!places.length) return;
  const wishes = new Map(places.map((place) => [place, id]));
  await labelAndGoOn(wishes, originOf(wishes), { stay });
}

const warnUnreadable = (places) => toast(`Not labelled because unreadable: ${named(places)}`, { bad: true });

/** Label items and go on; if they could not be saved, go back to them. */
async function labelAndGoOn(wishes, origin, { stay = false } = {}) {
  const work = labelEach(wishes, origin);
  const { order } = view;
  const before = chosen.focus;
  if (wishes.size === 1) next({ stay });
  else chosen.places = new Set();
  const after = chosen.focus;
  const isSaved = await work;
  if (isSaved || view.order !== order || chosen.focus !== after) return;
  if (wishes.size === 1) focusOn(before);
  else chosen.places = new Set(wishes.keys());
  changed();
}

export const selection = () => {
  if (chosen.places.size) return view.order.filter((place) => chosen.places.has(place));
  const place = view.order[chosen.focus];
  return place === undefined ? [] : [place];
};

/** Whether a key would label an item unseen: one that was scrolled away is then shown first. */
function isAway(places) {
  const rank = view.order.indexOf(places[0]);
  if (view.busy) return true; // other items are about to be shown
  if (places.length > 1 || isOnScreen(rank)) return false;
  focusOn(rank);
  changed();
  toast("This item is selected: press again to label it");
  return true;
}

/** Confirm the answers of the selected items. */
export async function confirm() {
  const selected = selection();
  const places = selected.filter(isAnswered);
  const labelled = selected.filter((place) => labelOf(place) !== null);
  if (!places.length && labelled.length) return view.name === "flagged" ? keep(labelled) : goOn();
  if (!places.length && selected.some(failureOf)) return warnUnreadable(selected.filter(failureOf));
  if (!places.length) return toast("Nothing to confirm: no answer yet");
  if (isAway(places)) return;
  const wishes = new Map(places.map((place) => [place, state.best[place]]));
  await labelAndGoOn(wishes, places.length > 1 ? "confirmed" : originOf(wishes));
}

/** Confirm labels that look wrong by giving them again. */
async function keep(places) {
  if (isAway(places)) return;
  await labelAndGoOn(new Map(places.map((place) => [place, labelOf(place)])), "checked");
}

/** Leave a labelled item as it is, and go on to the next one without a label. */
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

/** Run an action, and offer to undo it if that makes sense. */
async function does(path, body, canUndo = true) {
  try {
    const done = await expectAnswers(() => inTurn(() => post(path, body)));
    toast(done.title, canUndo ? { action: ["Undo", undo] } : {});
    return done;
  } catch (error) {
    takeChanges({ classes: error.classes ?? [], labels: error.conflicts ?? [] });
    failed(error);
    return null;
  }
}

export const undo = () => does("/api/undo", {}, false);
export const redo = () => does("/api/redo", {}, false);
export const addClass = (name) => does("/api/classes", { name });
/** What the user sees now; the server refuses to change classes that others have changed since. */
export const seenOf = (own) => ({ seen: own.version, seen_revision: state.revision });
export const renameClass = (id, name, known) => does(`/api/classes/${id}/rename`, { name, ...known });
export const mergeClass = (id, into, known) => does(`/api/classes/${id}/merge`, { into: into.id, into_seen: into.version, ...known });
export const deleteClass = (id, known) => does(`/api/classes/${id}/delete`, known);
export const useFolders = () => does("/api/folders", {});

/** Sort the files into folders, which undo does not touch. */
export async function sortFiles(by) {
  toast("Sorting files …");
  try {
    const done = await post("/api/export/folders", { by });
    const left = done.left_out;
    const names = `${left.slice(0, 3).join(", ")}${left.length > 3 ? `, and ${left.length - 3} more` : ""}`;
    const there = done.there ? `; ${counted(done.there, "file")} ${done.there === 1 ? "was" : "were"} there already` : "";
    toast(`${counted(done.done, "file")} sorted into ${done.folder}${there}${left.length ? `; left out because missing or unreadable: ${names}` : ""}`, { bad: left.length > 0 });
  } catch (error) {
    failed(error);
  }
}

/** Reload everything; drop the reply if `isWanted` is false by the time it arrives. */
export async function reload(isWanted) {
  const reply = await get("/api/state");
  if (!isWanted()) return;
  load(reply);
  if (reply.trouble) toast(reply.trouble, { bad: true });
}

export const nameOf = (id) =>
  id === null ? "no label" : id === state.limits.aside ? "none of these" : (classOf(id)?.name ?? "a deleted class");
