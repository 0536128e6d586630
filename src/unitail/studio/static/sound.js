// Sounds: a single player for all of them, so that starting one stops the other.

import { soundOf } from "./api.js";
import { h, icon, toast } from "./dom.js";
import { state } from "./state.js";

const player = new Audio();
const lengths = new Map(); // place -> seconds, once they are known
let current = null; // the place whose sound is in the player

const isPlaying = (place) => place === current && !player.paused;

/** Play a sound from where it was left, or pause it. */
export function toggle(place) {
  if (isPlaying(place)) return pause();
  if (place !== current) {
    current = place;
    player.src = soundOf(place);
  }
  player.play().catch((error) => error.name === "NotSupportedError" && failed(place));
}

/** Play a sound from its beginning. */
export function play(place) {
  if (place === current) player.currentTime = 0;
  if (!isPlaying(place)) toggle(place);
}

export const pause = () => player.pause();

/** Load a sound anew when it is played next: its file has changed. */
export function forget(place) {
  lengths.delete(place);
  if (place === current && player.paused) current = null;
}

function failed(place) {
  toast(`${state.names[place]} cannot be played`, { bad: true });
}

const clock = (seconds) => {
  const whole = Math.round(seconds);
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
};

/** A button that plays or pauses a sound, with its position and length. It is not a <button>,
 * since some browsers do not start a drag on one. On a card, which is an option of a list and can have no
 * controls for screen readers, it is for the mouse: P plays the focused item. */
export function playButton(place, { large = false, onCard = false } = {}) {
  const props = onCard ? { tabIndex: -1, "aria-hidden": "true" } : { role: "button", tabIndex: 0 };
  const made = h("div", { class: large ? "play big" : "play", ...props, "data-sound": place },
    h("span", { class: "knob" }, icon("play"), icon("pause")), h("i", { class: "track" }), h("span", { class: "length" }));
  made.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || ![" ", "Enter"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    toggle(place);
  });
  made.addEventListener("click", (event) => (large && event.target.matches(".track") ? seek(place, event) : toggle(place)));
  update(made);
  return made;
}

/** Play from the position that was clicked. */
function seek(place, { target, clientX }) {
  const { left, width } = target.getBoundingClientRect();
  if (place === current && lengths.has(place)) player.currentTime = ((clientX - left) / width) * lengths.get(place);
  if (!isPlaying(place)) toggle(place);
}

/** Update a button's state, position and length. */
function update(button) {
  const place = Number(button.dataset.sound);
  const length = lengths.get(place);
  const share = place === current && length ? player.currentTime / length : 0;
  button.classList.toggle("playing", isPlaying(place));
  button.setAttribute(button.hasAttribute("role") ? "aria-label" : "title", `${isPlaying(place) ? "Pause" : "Play"} ${state.names[place]}`);
  button.style.setProperty("--at", share);
  button.querySelector(".length").textContent = length === undefined ? "" : clock(length);
}

function updateAll() {
  if (Number.isFinite(player.duration)) lengths.set(current, player.duration);
  for (const button of document.querySelectorAll("[data-sound]")) update(button);
}

for (const name of ["play", "pause", "ended", "timeupdate", "durationchange", "emptied"]) player.addEventListener(name, updateAll);
