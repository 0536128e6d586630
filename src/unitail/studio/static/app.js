// The page: it loads everything once, then follows the server's events.

import { failed, redo, reload, undo } from "./actions.js";
import { forget, forgetAll } from "./card.js";
import * as detail from "./detail.js";
import { askExport, showAccuracy, showFiles, showKeys, showNotes } from "./dialogs.js";
import { $, counted, fill, h, icon, isNarrow, percent, say, toast } from "./dom.js";
import { clear, draw, measure, remove, toTop } from "./grid.js";
import { guide } from "./guide.js";
import { wireKeys } from "./keys.js";
import { wireSearch } from "./search.js";
import { drawBar, drawSide, wireSide } from "./sidebar.js";
import { forget as forgetSound, pause } from "./sound.js";
import { changed, classOf, counts, isAnswered, isAnswering, isBehind, isNovel, onChange, state, takeAnswers, takeChanges, takeEstimate, takeItems, takeNovelty, takeRest } from "./state.js";
import { checkOrder, chosen, isClass, isDone, isFetching, show, view, viewOfAddress, VIEWS } from "./views.js";

const SURE = 0.95;
const RETRY = 2000; // milliseconds, after a failed reload
const VAGUE = 25; // points: an accuracy that is less certain than this is not shown
const MIN_LABELS = 10; // including two of each class: with fewer, high probabilities mean little

/** What is written above a class, or the results of a search. */
function titleAndAbout() {
  if (view.name === "search") return [`“${view.words}”`, "Items whose name or content contains these words."];
  const named = classOf(view.classId);
  if (named) return [named.name, "Answers first, the most certain on top; then your labels."];
  return ["None of these", "Items that you set aside because none of your classes fits."];
}

function heading() {
  const own = VIEWS[view.name];
  if (view.name === "class" && !isClass(view.classId)) return show("all");
  const [title, about] = own ? [own.title, own.about] : titleAndAbout();
  say($("view-title"), title);
  const marked = own?.marked ? `, ${counts()[view.name].toLocaleString("en")} of them ${own.marked}` : "";
  const now = isFetching() ? "Fetching the items …" : "One moment …";
  say($("view-about"), view.busy ? now : `${counted(view.order.length, "item")}${marked}. ${about}`);
  $("grid").classList.toggle("fetching", isFetching());
  $("again").hidden = !view.stale;
  $("more-next").hidden = view.name !== "next" || !view.order.length;
  const sure = areFew() ? [] : view.order.filter((place) => isAnswered(place) && state.p[place] >= SURE && !isNovel(place));
  $("select-sure").hidden = !sure.length;
  const words = `Select ${sure.length.toLocaleString("en")} above ${percent(SURE)}`;
  say($("select-sure"), words);
  $("select-sure").onclick = () => {
    chosen.places = new Set(sure);
    chosen.sure = new Set(sure);
    $("grid").focus();
    changed();
  };
}

/** Whether labels are too few for probabilities to be relied on. */
function areFew() {
  const { labelled, given } = counts();
  return labelled < MIN_LABELS || Math.min(...given.values()) < 2;
}

function nothing() {
  const box = $("nothing");
  box.hidden = view.order.length > 0 || view.busy || !state.loaded;
  const early = "Answers appear here once two classes have examples.";
  const done = counts().open ? null : ["All done", "Every item is labelled."];
  const words = {
    next: ["All done", "There is nothing left to label. Review the classes, or export."],
    doubtful: done ?? ["Nothing is doubtful yet", early],
    novel: done ?? ["Nothing is novel yet", early],
    flagged: state.estimate
      ? ["No label looks wrong", "Labels are checked against each other while you work."]
      : ["Not checked yet", "Labels are checked against each other once there are enough."],
    labelled: ["No labels yet", "Select items and press a number, or drag them onto a class."],
    search: ["Nothing found", "No item contains these words in its name or content."],
  }[view.name] ?? ["Nothing here", ""];
  if (!box.hidden) box.replaceChildren(h("h3", {}, words[0]), h("p", {}, words[1]));
  $("grid").classList.toggle("empty", !box.hidden);
}

function status() {
  const { done, total, trouble, failures, changed: moved, missing_items: gone, source } = state.progress;
  $("lost").hidden = !state.lost;
  const box = $("encoding");
  box.hidden = done >= total || Boolean(trouble) || state.lost;
  box.querySelector("progress").value = total ? done / total : 0;
  say(box.querySelector("span"), `Encoding ${done.toLocaleString("en")} / ${total.toLocaleString("en")}`);
  $("answering").hidden = !isAnswering() || state.lost;
  const wrong = new Set([...Object.keys(failures).map(Number), ...moved]).size + gone.length;
  const rows = gone.filter(({ kind }) => kind !== "file").length;
  const noun = rows === wrong ? "row" : rows ? "item" : "file";
  $("files").hidden = !wrong && !trouble && !source;
  fill($("files"), [trouble, wrong, noun, source], () => trouble || source
    ? [icon("warn"), h("span", { class: "wide" }, trouble ? "Encoding stopped" : "The table changed")]
    : [icon("warn"), h("span", {}, wrong.toLocaleString("en"), h("span", { class: "wide" }, ` ${noun}${wrong === 1 ? "" : "s"} to look at`))]);
  $("files").ariaLabel = $("files").textContent; // in a narrow window, too
  $("notes").hidden = $("side-noted").hidden = !state.notes.length;
  say($("notes"), counted(state.notes.length, "note"));
  accuracy();
}

function accuracy() {
  const { estimate } = state;
  const half = estimate ? Math.max(1, Math.round(50 * (estimate.now.high - estimate.now.low))) : 100;
  $("accuracy").hidden = half > VAGUE;
  if (!estimate) return;
  const { labelled, readable, answered } = counts(); // files that vanish later are still in the estimate
  const known = estimate.labels + estimate.confirmed;
  const isOld = known < readable || known > labelled;
  const short = isNarrow() ? percent(estimate.now.mean) : estimate.short;
  const whose = answered.size ? "" : " of new items"; // everything is labelled
  say($("accuracy"), `≈ ${short}${isNarrow() ? "" : `${whose} right`}${isOld ? " …" : ""}`);
  $("accuracy").title = isOld ? `Being updated. Before: ${estimate.sentence}` : estimate.sentence;
}

let ordered = null; // the order that was drawn last
let wantsRefill = false; // whether answers have come since *Label next* was filled

/** Refill *Label next* once all of it is labelled and the new answers have arrived. */
function refill() {
  if (!wantsRefill || isBehind() || view.busy) return;
  wantsRefill = false;
  if (view.name === "next" && (isDone() || !view.order.length)) show("next");
}

function render() {
  if (!state.loaded) return;
  measure();
  if (state.modality === "audio") $("grid").setAttribute("aria-description", "P plays or pauses a sound");
  document.title = `${state.name} – unitail studio`;
  say($("project"), state.name);
  checkOrder();
  if (view.moved) {
    view.moved = false;
    toTop();
  }
  if (ordered !== view.order) {
    ordered = view.order;
    const visible = new Set(ordered); // items that have left the view must not stay selected
    for (const place of chosen.places) if (!visible.has(place)) chosen.places.delete(place);
  }
  refill();
  chosen.focus = Math.min(chosen.focus, Math.max(0, view.order.length - 1));
  for (const part of [heading, guide, nothing, status, drawSide, draw, detail.follow]) part();
  drawBar([...chosen.places]);
}

/** Listen to the server's events. Those that arrive during a reload are handled after it. */
function listen(onFirst) {
  const news = new EventSource("/api/events");
  let held = null;
  let first = true;
  let wasLost = false;
  const on = (name, take) =>
    news.addEventListener(name, (event) => {
      const work = () => take(JSON.parse(event.data));
      if (held) held.push(work);
      else work();
    });
  news.onerror = () => {
    if (!wasLost && !first) toast("The studio is not responding. Your labels are safe; trying again …", { bad: true });
    wasLost = true;
    state.lost = !first;
    changed();
  };
  let hellos = 0;
  news.addEventListener("hello", async (event) => {
    const other = JSON.parse(event.data) !== state.boot;
    const number = ++hellos;
    const isLatest = () => number === hellos; // a newer reload may be under way
    wasLost = false;
    state.lost = false;
    held = [];
    while (isLatest()) {
      try {
        await reload(isLatest);
        break;
      } catch (error) {
        failed(error);
        await new Promise((done) => setTimeout(done, RETRY));
      }
    }
    if (!isLatest()) return;
    const late = held;
    held = null;
    for (const work of late) work();
    if (other) {
      clear();
      forgetAll();
    }
    if (first) await onFirst();
    else if (other) await show(view.name, view);
    first = false;
    changed();
  });
  on("items", takeItems);
  on("changes", takeChanges);
  on("answers", takeAnswers);
  on("novelty", takeNovelty);
  on("progress", (progress) => {
    const [before, now] = [state.progress.contents ?? {}, progress.contents];
    const known = Object.keys({ ...before, ...now }); // a file may be as before again
    const places = new Set(known.filter((place) => before[place] !== now[place]).map(Number));
    state.progress = progress;
    for (const place of places) {
      forget(place);
      forgetSound(place);
      remove(place); // its new card shows the new content
    }
    detail.refresh(places);
    changed();
  });
  on("estimate", takeEstimate);
  on("trouble", (words) => toast(words, { bad: true }));
  on("notice", (words) => toast(words));
  on("rest", (rest) => {
    takeRest(rest);
    wantsRefill = true;
  });
}

function theme() {
  const stored = localStorage.getItem("unitail-theme");
  if (stored) document.documentElement.dataset.theme = stored;
}

function turnTheme() {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("unitail-theme", dark ? "light" : "dark");
}

let drawing = false;

/** While the user scrolls, only the cards are drawn: nothing else depends on the position. */
function drawSoon() {
  if (drawing || !state.loaded) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    measure();
    draw();
  });
}

function wire() {
  wireSide();
  wireSearch();
  wireKeys();
  $("undo").onclick = undo;
  for (const [name, action] of [["redo", redo], ["help", showKeys], ["theme", turnTheme], ["notes", showNotes]])
    for (const button of document.querySelectorAll(`#${name}, #side-${name}`)) button.onclick = action;
  $("export").onclick = askExport;
  $("accuracy").onclick = showAccuracy;
  $("files").onclick = showFiles;
  $("again").onclick = () => show(view.name, view);
  $("more-next").onclick = () => (show("next", { others: true }), $("grid").focus({ preventScroll: true }));
  $("grid").addEventListener("scroll", drawSoon, { passive: true });
  $("detail").addEventListener("close", () => (pause(), $("grid").focus()));
  new ResizeObserver(() => changed()).observe($("grid"));
  const own = document.documentElement.style; // messages lie above the bar
  new ResizeObserver(() => own.setProperty("--bar", `${$("bar").offsetHeight}px`)).observe($("bar"));
}

theme();
wire();
onChange(render);
listen(async () => {
  const [name, more] = viewOfAddress();
  $("search").value = more.words ?? "";
  await show(name, more);
  $("grid").focus({ preventScroll: true });
  chosen.places.clear();
});
