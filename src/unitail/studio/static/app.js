// The page: it loads everything once, then follows the news of the server.

import { failed, redo, reload, undo } from "./actions.js";
import { forget, forgetAll } from "./card.js";
import * as detail from "./detail.js";
import { askExport, showAccuracy, showFiles, showKeys } from "./dialogs.js";
import { $, counted, h, percent, say, toast, withInterval } from "./dom.js";
import { chosen, clear, draw, focusOn, measure, toTop } from "./grid.js";
import { guide } from "./guide.js";
import { wireKeys } from "./keys.js";
import { drawBar, drawSide, go, wireSide } from "./sidebar.js";
import { changed, classOf, counts, isAnswered, isNovel, onChange, state, takeAnswers, takeChanges, takeEstimate, takeItems, takeNovelty } from "./state.js";
import { checkOrder, firstView, isDone, show, view, VIEWS } from "./views.js";

const SURE = 0.95;
const RETRY = 2000; // milliseconds, after everything could not be loaded
const VAGUE = 25; // an accuracy that is less certain than this many points says nothing

function heading() {
  const own = VIEWS[view.name];
  const named = classOf(view.classId);
  if (view.name === "class" && !named) return show("all");
  const title = own?.title ?? (named ? named.name : `“${view.words}”`);
  const about = own?.about ?? (named ? "What is answered so, the surest first; then your labels." : "Names and contents that hold these words.");
  say($("view-title"), title);
  const marked = own?.marked ? `, ${counts()[view.name].toLocaleString("en")} of them ${own.marked}` : "";
  say($("view-about"), view.busy ? "One moment …" : `${counted(view.order.length, "item")}${marked}. ${about}`);
  $("again").hidden = !view.stale;
  $("more-next").hidden = view.name !== "next" || !view.order.length;
  const sure = view.order.filter((place) => isAnswered(place) && state.p[place] >= SURE && !isNovel(place));
  $("select-sure").hidden = !sure.length;
  const words = `Select ${sure.length.toLocaleString("en")} above ${percent(SURE)}`;
  say($("select-sure"), words);
  $("select-sure").onclick = () => {
    chosen.places = new Set(sure);
    $("grid").focus();
    changed();
  };
}

function nothing() {
  const box = $("nothing");
  box.hidden = view.order.length > 0 || view.busy || !state.loaded;
  const words = {
    next: ["All done", "There is nothing left to label. Look at the classes, or export."],
    doubtful: ["Nothing is doubtful yet", "Answers show here once two classes have examples."],
    novel: ["Nothing is novel yet", "Answers show here once two classes have examples."],
    flagged: ["No label looks wrong", "Labels are checked against each other while you work."],
    labelled: ["No labels yet", "Select items and press a number, or drag them onto a class."],
    search: ["Nothing found", "No name or content holds these words."],
  }[view.name] ?? ["Nothing here", ""];
  if (!box.hidden) box.replaceChildren(h("h3", {}, words[0]), h("p", {}, words[1]));
  $("grid").classList.toggle("empty", !box.hidden);
}

function status() {
  const { done, total, trouble, failures, changed: moved, missing } = state.progress;
  $("lost").hidden = !state.lost;
  const box = $("encoding");
  box.hidden = done >= total || Boolean(trouble) || state.lost;
  box.querySelector("progress").value = total ? done / total : 0;
  say(box.querySelector("span"), `Encoding ${done.toLocaleString("en")} / ${total.toLocaleString("en")}`);
  const wrong = Object.keys(failures).length + moved.length + missing.length;
  $("files").hidden = !wrong && !trouble;
  say($("files"), trouble ? "Encoding stopped" : `${wrong} ${wrong === 1 ? "file" : "files"} to look at`);
  const told = state.estimate;
  const half = told ? Math.max(1, Math.round(50 * (told.now.high - told.now.low))) : 100;
  $("accuracy").hidden = half > VAGUE;
  if (told) {
    say($("accuracy"), `≈ ${withInterval(told.now)} right`);
    $("accuracy").title = told.sentence;
  }
}

function render() {
  if (!state.loaded) return;
  measure();
  document.title = `${state.name} – unitail studio`;
  say($("project"), state.name);
  checkOrder();
  if (view.moved) {
    view.moved = false;
    Object.assign(chosen, { places: new Set(), focus: 0, anchor: 0 });
    toTop();
  }
  chosen.focus = Math.min(chosen.focus, Math.max(0, view.order.length - 1));
  for (const part of [heading, guide, nothing, status, drawSide, draw, detail.follow]) part();
  drawBar([...chosen.places]);
}

/** Follow the news. What comes while everything is loaded anew waits until it is there. */
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
    if (!wasLost && !first) toast("The studio does not answer; your labels are safe. Trying again …", { bad: true });
    wasLost = true;
    state.lost = !first;
    changed();
  };
  let hellos = 0;
  news.addEventListener("hello", async (event) => {
    const other = JSON.parse(event.data) !== state.boot;
    const own = ++hellos;
    const isLatest = () => own === hellos; // else the connection was lost again, and another loads
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
    else if (other) await show(firstView());
    first = false;
    changed();
  });
  on("items", takeItems);
  on("changes", takeChanges);
  on("answers", takeAnswers);
  on("novelty", takeNovelty);
  on("progress", (told) => {
    for (const place of told.changed) if (!state.progress.changed.includes(place)) forget(place);
    state.progress = told;
    changed();
  });
  on("estimate", takeEstimate);
  on("trouble", (words) => toast(words, { bad: true }));
  on("notice", (words) => toast(words));
  on("rest", () => {
    if (view.name === "next" && isDone()) show("next");
    if (view.name === "next" && !view.order.length) show("next");
  });
}

function theme() {
  const own = localStorage.getItem("unitail-theme");
  if (own) document.documentElement.dataset.theme = own;
  $("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("unitail-theme", dark ? "light" : "dark");
  });
}

let drawing = false;

/** While somebody scrolls, only the cards are drawn: nothing else depends on where they are. */
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
  wireKeys();
  $("undo").onclick = undo;
  $("redo").onclick = redo;
  $("help").onclick = showKeys;
  $("export").onclick = askExport;
  $("accuracy").onclick = showAccuracy;
  $("files").onclick = showFiles;
  $("again").onclick = () => show(view.name, view);
  $("more-next").onclick = () => show("next");
  $("grid").addEventListener("scroll", drawSoon, { passive: true });
  $("detail").addEventListener("close", () => $("grid").focus());
  new ResizeObserver(() => changed()).observe($("grid"));
  let waiting = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(waiting);
    const words = $("search").value.trim();
    waiting = setTimeout(() => (words ? go("search", { words }) : go(firstView())), 200);
  });
  $("search").addEventListener("keydown", (event) => event.key === "Enter" && ($("grid").focus(), focusOn(0), changed()));
}

theme();
wire();
onChange(render);
listen(async () => {
  await show(firstView());
  $("grid").focus({ preventScroll: true });
  chosen.places.clear();
});
