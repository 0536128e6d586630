// The search field. Leaving it returns to the view that was shown before the search.

import { $ } from "./dom.js";
import { focusOn } from "./grid.js";
import { find } from "./sidebar.js";
import { changed } from "./state.js";
import { firstView, view } from "./views.js";

const PAUSE = 200; // milliseconds without a key before the words are searched for
let waiting = 0;
let before = null; // the view to return to; null if the page was opened on a search

function search() {
  const words = $("search").value.trim();
  if (!words) return leaveSearch();
  if (view.name !== "search") before = [view.name, { classId: view.classId }];
  find("search", { words });
}

/** Empty the field, and show the view from before the search. */
export function leaveSearch() {
  clearTimeout(waiting);
  $("search").value = "";
  if (view.name === "search") find(...(before ?? [firstView()]));
}

export function wireSearch() {
  $("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, PAUSE);
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    $("grid").focus();
    focusOn(0);
    changed();
  });
}
