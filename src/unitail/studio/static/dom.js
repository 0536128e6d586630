// Elements, toasts and announcements.

export const $ = (id) => document.getElementById(id);

/** Make an element: h("button", { class: "soft", onclick }, "Text", child). */
export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "colour") made.style.setProperty("--c", value);
    else if (name in made && name !== "list" && !name.startsWith("aria")) made[name] = value;
    else made.setAttribute(name === "class" ? "class" : name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Set the text of an element, only if it differs: an equal text costs no layout. */
export function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

/** Refill a box only if `look` has changed: a button that is replaced during a click loses the click. */
export function fill(box, look, make) {
  const words = JSON.stringify(look);
  if (box.look === words) return;
  box.look = words;
  keepFocus(box, () => box.replaceChildren(...make().filter((child) => child !== null)));
}

const named = (button) => button.dataset.key ?? button.getAttribute("aria-label") ?? button.textContent;

/** Replace a box's content and keep the focus on the button of the same name, or else on `other`. */
export function keepFocus(box, replace, other = null) {
  const active = document.activeElement;
  const name = box.contains(active) && active !== box ? named(active) : null;
  replace();
  if (name === null) return;
  const same = [...box.querySelectorAll("button")].find((button) => named(button) === name);
  (same ?? other)?.focus();
}

export function icon(name) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  made.setAttribute("aria-hidden", "true");
  made.append(use);
  return made;
}

/** Announce a text to screen readers. */
export function announce(text) {
  $("live").textContent = "";
  requestAnimationFrame(() => ($("live").textContent = text));
}

/** Show a message for a while; `action` is [words, callback]. */
export function toast(text, { action = null, bad = false } = {}) {
  announce(text);
  const message = h("div", { class: bad ? "toast bad" : "toast" }, h("span", {}, text));
  const close = () => {
    message.classList.add("gone");
    setTimeout(() => message.remove(), 200);
  };
  for (const older of document.querySelectorAll(".toast .action")) older.remove(); // it would undo the newer action
  if (action) message.append(h("button", { class: "action", onclick: () => (close(), action[1]()) }, action[0]));
  message.append(h("button", { class: "icon", "aria-label": "Close", onclick: close }, icon("close")));
  const box = $("toasts");
  while (box.children.length > 2) box.firstChild.remove();
  box.append(message);
  if (box.matches(":popover-open")) box.hidePopover(); // a dialog may lie over it by now
  box.showPopover();
  setTimeout(close, bad ? 12000 : 5000);
}

/** Whether the window is as narrow as style.css calls it. */
export const isNarrow = () => matchMedia("(max-width: 760px)").matches;

export const percent = (p) =>
  p > 0.99 && p < 1 ? "> 99 %" : p < 0.01 && p > 0 ? "< 1 %" : `${Math.round(100 * p)} %`;

export const counted = (number, noun) =>
  `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
