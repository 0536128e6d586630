// Requests to the server.

import { state } from "./state.js";

export class Refused extends Error {
  constructor(status, content) {
    super(content.error ?? `The server answered ${status}.`);
    this.status = status;
    this.conflicts = content.conflicts ?? [];
    this.classes = content.classes ?? [];
  }
}

async function read(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, content);
  return content;
}

/** Read a file, with the name given by the server. */
async function readFile(response) {
  if (!response.ok) return read(response); // throws the server's error
  const [, , name] = /filename(\*=utf-8''|=")([^";]+)/i.exec(response.headers.get("content-disposition")) ?? ["", "", "answers"];
  return { name: decodeURIComponent(name), blob: await response.blob() };
}

async function request(path, options, take = read) {
  try {
    return await take(await fetch(path, options));
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Refused(0, { error: "The studio is not responding. Is it still running?" });
  }
}

export const get = (path) => request(path);
export const getFile = (path) => request(path, {}, readFile);

export const post = (path, body) =>
  request(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

/** A URL parameter that keeps the browser from showing cached files of another studio or version. */
const edition = (place) => `v=${state.boot}${state.progress.changed.includes(place) ? Date.now() : ""}`;

export const imageOf = (place, size = "small") => `/api/items/${place}/image?size=${size}&${edition(place)}`;

export const soundOf = (place) => `/api/items/${place}/sound?${edition(place)}`;
