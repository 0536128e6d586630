// The state of items, classes, labels and answers; code that changes it calls `changed`.

export const NONE = -1;

export const state = {
  names: [],
  modality: "image",
  revision: 0, // of the last changes that this page knows
  classes: [], // {id, name, colour, key, version}
  labels: new Map(), // place -> [class id, version]; a class id of null is no label
  best: new Int32Array(),
  second: new Int32Array(),
  p: new Float64Array(),
  p2: new Float64Array(),
  novelty: new Float64Array(),
  encoded: new Uint8Array(),
  progress: { done: 0, total: 0, trouble: "", failures: {}, changed: [], missing_items: [], missing_sentence: "", source: "" },
  estimate: null,
  suspects: new Map(), // place -> {id, p}: the class that the other labels suggest for a label that looks wrong
  limits: {}, // thresholds of doubtful and novel answers, and the class id of items set aside
  folders: {},
  loaded: false,
  lost: false, // whether the connection to the server is lost
};

const listeners = new Set();
let waiting = false;
let summed = null; // the result of `counts` since the last change

/** Call `listener` in the next frame after each change. */
export const onChange = (listener) => listeners.add(listener);

export function changed() {
  summed = null;
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    for (const listener of listeners) listener();
  });
}

const PATIENCE = 1000; // milliseconds: the page shows that it is waiting for answers that take longer
const answering = { sending: 0, asked: 0, rested: 0, since: 0 }; // requests, revisions, a time

/** Send an action that makes a new revision, whose answers come some time later. */
export async function expectAnswers(send) {
  if (!isBehind()) answering.since = Date.now();
  answering.sending++;
  setTimeout(changed, PATIENCE + 10);
  try {
    const done = await send();
    answering.asked = Math.max(answering.asked, done.revision);
    return done;
  } finally {
    answering.sending--;
    changed();
  }
}

export function takeRest({ revision }) {
  answering.rested = Math.max(answering.rested, revision);
  changed();
}

/** Whether answers to this page's last action have not arrived yet. */
export const isBehind = () => answering.sending > 0 || answering.asked > answering.rested;
export const isAnswering = () => isBehind() && Date.now() - answering.since >= PATIENCE;

const rows = new Map(); // class id -> row, deleted ones too

export function load(reply) {
  const count = reply.names.length;
  Object.assign(state, {
    ...{ boot: reply.boot, name: reply.name, modality: reply.modality, names: reply.names, columns: reply.columns },
    ...{ notes: reply.notes, folders: reply.folders, sortedFolder: reply.sorted_folder },
    ...{ limits: reply.limits, progress: reply.progress },
    labels: new Map(),
    revision: 0,
    best: new Int32Array(count).fill(NONE),
    second: new Int32Array(count).fill(NONE),
    p: new Float64Array(count),
    p2: new Float64Array(count),
    novelty: new Float64Array(count),
    encoded: new Uint8Array(count),
    loaded: true,
  });
  rows.clear();
  answering.asked = 0;
  takeEstimate(reply.estimate);
  takeChanges(reply.changes);
  takeAnswers(reply.answers);
}

/** Add new items; their places come after all others. */
export function takeItems({ first, names }) {
  const fresh = names.slice(state.names.length - first); // some may have come with a reload
  if (!fresh.length) return;
  state.names = [...state.names, ...fresh];
  const count = state.names.length;
  for (const [key, nothing] of [["best", NONE], ["second", NONE], ["p", 0], ["p2", 0], ["novelty", 0], ["encoded", 0]]) {
    const longer = new state[key].constructor(count).fill(nothing);
    longer.set(state[key]);
    state[key] = longer;
  }
  changed();
}

export function takeChanges(changes) {
  state.revision = Math.max(state.revision, changes.revision ?? 0);
  for (const row of changes.classes) if (row.version >= (rows.get(row.id)?.version ?? 0)) rows.set(row.id, row);
  takeLabels(changes.labels);
  const alive = [...rows.values()].filter((row) => !row.deleted).sort((a, b) => a.id - b.id);
  dealKeys(alive);
  state.classes = alive.map((row) => ({ id: row.id, name: row.name, colour: colourOf(row.id), key: keys.get(row.id) ?? "", version: row.version }));
  state.byId = new Map(state.classes.map((each) => [each.id, each]));
  changed();
}

const keys = new Map(); // class id -> key; while the page is open, a class keeps its own

/** The keys 1 to 9: a class named after a digit has that key; others take the first free one. */
function dealKeys(classes) {
  const named = new Map(classes.filter(({ name }) => /^[0-9]$/.test(name)).map(({ id, name }) => [name, id]));
  const alive = new Set(classes.map(({ id }) => id));
  const isLost = (id, key) => !alive.has(id) || (key === "0" ? named.get(key) !== id : (named.get(key) ?? id) !== id);
  for (const [id, key] of keys) if (isLost(id, key)) keys.delete(id);
  for (const [key, id] of named) keys.set(id, key);
  const taken = new Set(keys.values());
  const free = [..."123456789"].filter((key) => !taken.has(key));
  for (const { id } of classes) if (!keys.has(id) && free.length) keys.set(id, free.shift());
}

/** Store labels, but never replace a newer version by an older one. */
export function takeLabels(labels) {
  for (const [place, classId, version] of labels) if (version >= versionOf(place)) state.labels.set(place, [classId, version]);
}

export function takeAnswers(answers) {
  answers.places.forEach((place, row) => {
    state.best[place] = answers.best[row];
    state.second[place] = answers.second[row];
    state.p[place] = answers.p[row];
    state.p2[place] = answers.p2[row];
    if (answers.novelty) state.novelty[place] = answers.novelty[row];
    state.encoded[place] = 1;
  });
  changed();
}

/** Store the novelty of items, which comes a little later than their answers. */
export function takeNovelty({ places, novelty }) {
  places.forEach((place, row) => (state.novelty[place] = novelty[row]));
  changed();
}

/** Mark a label as checked, so that it is no longer listed. */
export function noteChecked(places) {
  if (!state.estimate) return;
  const suspicious = state.estimate.suspicious.filter(([place]) => !places.includes(place));
  takeEstimate({ ...state.estimate, suspicious });
}

/** Store the estimated accuracy, and the labels that look wrong. */
export function takeEstimate(estimate) {
  state.estimate = estimate;
  state.suspects = new Map((estimate?.suspicious ?? []).map(([place, id, p]) => [place, { id, p }]));
  changed();
}

/** Colours far apart: the hues of consecutive classes differ by the golden angle. */
const colourOf = (id) => `oklch(var(--class-l) var(--class-c) ${(id * 137.508 + 200) % 360})`;

/** The class id of an item's label, or null; a label of a deleted class is none. */
export function labelOf(place) {
  const id = state.labels.get(place)?.[0] ?? null;
  return id === state.limits.aside || classOf(id) ? id : null;
}
export const versionOf = (place) => state.labels.get(place)?.[1] ?? 0;
export const classOf = (id) => state.byId?.get(id) ?? null;
/** The class that the other labels suggest instead of an item's own label, or null. */
export function contradictionOf(place) {
  const suspect = classOf(labelOf(place)) && state.suspects.get(place);
  const suggested = suspect && suspect.id !== labelOf(place) ? classOf(suspect.id) : null;
  return suggested ? { suggested, p: suspect.p } : null;
}
export const isAside = (place) => labelOf(place) === state.limits.aside;
export const failureOf = (place) => state.progress.failures[place] ?? null;
export const isAnswered = (place) => state.best[place] !== NONE && labelOf(place) === null && !failureOf(place);
export const isNovel = (place) => isAnswered(place) && state.novelty[place] >= state.limits.novel;
export const isDoubtful = (place) => isAnswered(place) && state.p[place] < state.limits.doubtful;

/** Count the items of each class and each view; `readable` are the labels of files that can be read,
 * `likely` and `unsure` the answers that are not novel, as in exported tables. */
export const counts = () => (summed ??= sumUp());

function sumUp() {
  const given = new Map();
  const answered = new Map();
  const all = { labelled: 0, aside: 0, open: 0, doubtful: 0, novel: 0, likely: 0, unsure: 0, readable: 0 };
  for (let place = 0; place < state.names.length; place++) {
    const label = labelOf(place);
    if (label === state.limits.aside) all.aside++;
    else if (label !== null) {
      all.labelled++;
      if (!failureOf(place)) all.readable++;
      given.set(label, (given.get(label) ?? 0) + 1);
    } else {
      all.open++;
      if (!isAnswered(place)) continue;
      answered.set(state.best[place], (answered.get(state.best[place]) ?? 0) + 1);
      if (isDoubtful(place)) all.doubtful++;
      if (isNovel(place)) all.novel++;
      else if (isDoubtful(place)) all.unsure++;
      else all.likely++;
    }
  }
  return { given, answered, ...all };
}
