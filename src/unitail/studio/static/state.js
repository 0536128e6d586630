// All that is known of items, classes, labels and answers; who changes it calls `changed`.

export const NONE = -1;

export const state = {
  names: [],
  modality: "image",
  classes: [], // {id, name, colour, key}
  labels: new Map(), // place -> [class id, version]; a class id of null is no label
  best: new Int32Array(),
  second: new Int32Array(),
  p: new Float64Array(),
  p2: new Float64Array(),
  novelty: new Float64Array(),
  encoded: new Uint8Array(),
  progress: { done: 0, total: 0, failures: {}, changed: [], missing: [] },
  estimate: null,
  suspects: new Map(), // place -> {id, p}: what the other labels say of one that looks wrong
  limits: { doubtful: 0.8, novel: 0.95, aside: 0 },
  folders: {},
  loaded: false,
  lost: false, // whether the server does not answer
};

const listeners = new Set();
let waiting = false;
let summed = null; // what `counts` said since the last change

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

const rows = new Map(); // class id -> row, deleted ones too

export function load(told) {
  const count = told.names.length;
  Object.assign(state, {
    ...{ boot: told.boot, name: told.name, modality: told.modality, names: told.names, columns: told.columns },
    ...{ notes: told.notes, folders: told.folders, sortedFolder: told.sorted_folder },
    ...{ limits: told.limits, progress: told.progress },
    labels: new Map(),
    best: new Int32Array(count).fill(NONE),
    second: new Int32Array(count).fill(NONE),
    p: new Float64Array(count),
    p2: new Float64Array(count),
    novelty: new Float64Array(count),
    encoded: new Uint8Array(count),
    loaded: true,
  });
  rows.clear();
  takeEstimate(told.estimate);
  takeChanges(told.changes);
  takeAnswers(told.answers);
}

/** Take in items that are new; their places come after all others. */
export function takeItems({ first, names }) {
  const fresh = names.slice(state.names.length - first); // some may have come with everything else
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

export function takeChanges(told) {
  for (const row of told.classes) if (row.version >= (rows.get(row.id)?.version ?? 0)) rows.set(row.id, row);
  takeLabels(told.labels);
  const alive = [...rows.values()].filter((row) => !row.deleted).sort((a, b) => a.id - b.id);
  const keys = keysOf(alive.map((row) => row.name));
  state.classes = alive.map((row, rank) => ({ id: row.id, name: row.name, colour: colourOf(row.id), key: keys[rank] }));
  state.byId = new Map(state.classes.map((each) => [each.id, each]));
  changed();
}

/** The keys 1 to 9: a class that is called so, or 0, has its own, the others have the rest in their order. */
function keysOf(names) {
  const digit = (name) => (/^[0-9]$/.test(name) ? name : "");
  const rest = [..."123456789"].filter((key) => !names.includes(key));
  return names.map((name) => digit(name) || (rest.shift() ?? ""));
}

/** Take labels in, but never an older one in place of a newer one. */
export function takeLabels(told) {
  for (const [place, classId, version] of told) if (version >= versionOf(place)) state.labels.set(place, [classId, version]);
}

export function takeAnswers(told) {
  told.places.forEach((place, row) => {
    state.best[place] = told.best[row];
    state.second[place] = told.second[row];
    state.p[place] = told.p[row];
    state.p2[place] = told.p2[row];
    if (told.novelty) state.novelty[place] = told.novelty[row];
    state.encoded[place] = 1;
  });
  changed();
}

/** Take in how novel items are, which is known a little later than their answers. */
export function takeNovelty(told) {
  told.places.forEach((place, row) => (state.novelty[place] = told.novelty[row]));
  changed();
}

/** Take in how right answers are, and which labels the others contradict. */
export function takeEstimate(told) {
  state.estimate = told;
  state.suspects = new Map((told?.suspicious ?? []).map(([place, id, p]) => [place, { id, p }]));
  changed();
}

/** Colours far apart: each class turns by the golden angle. */
const colourOf = (id) => `oklch(var(--class-l) var(--class-c) ${(id * 137.508 + 200) % 360})`;

export const labelOf = (place) => state.labels.get(place)?.[0] ?? null;
export const versionOf = (place) => state.labels.get(place)?.[1] ?? 0;
export const classOf = (id) => state.byId?.get(id) ?? null;
/** The class that the other labels speak for, against the label of an item, or null. */
export function contradictionOf(place) {
  const told = classOf(labelOf(place)) && state.suspects.get(place);
  const known = told && told.id !== labelOf(place) ? classOf(told.id) : null;
  return known ? { known, p: told.p } : null;
}
export const isAside = (place) => labelOf(place) === state.limits.aside;
export const failureOf = (place) => state.progress.failures[place] ?? null;
export const isAnswered = (place) => state.best[place] !== NONE && labelOf(place) === null;
export const isNovel = (place) => isAnswered(place) && state.novelty[place] >= state.limits.novel;
export const isDoubtful = (place) => isAnswered(place) && state.p[place] < state.limits.doubtful;

/** Count what each class has, and each view. */
export const counts = () => (summed ??= sumUp());

function sumUp() {
  const given = new Map();
  const answered = new Map();
  const all = { labelled: 0, aside: 0, doubtful: 0, novel: 0, sorted: 0, open: 0 };
  for (let place = 0; place < state.names.length; place++) {
    const label = labelOf(place);
    if (label === state.limits.aside) all.aside++;
    else if (label !== null) {
      all.labelled++;
      given.set(label, (given.get(label) ?? 0) + 1);
    } else {
      all.open++;
      if (state.best[place] === NONE) continue;
      all.sorted++;
      answered.set(state.best[place], (answered.get(state.best[place]) ?? 0) + 1);
      if (state.p[place] < state.limits.doubtful) all.doubtful++;
      if (state.novelty[place] >= state.limits.novel) all.novel++;
    }
  }
  return { given, answered, ...all };
}
