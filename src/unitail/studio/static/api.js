// What the page asks of the server.

export class Refused extends Error {
  constructor(status, content) {
    super(content.error ?? `The server answered ${status}.`);
    this.status = status;
    this.conflicts = content.conflicts ?? [];
  }
}

async function read(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, content);
  return content;
}

/** A file, with the name that the server gives it. */
async function readFile(response) {
  if (!response.ok) return read(response); // which says why
  const [, , name] = /filename(\*=utf-8''|=")([^";]+)/i.exec(response.headers.get("content-disposition")) ?? ["", "", "answers"];
  return { name: decodeURIComponent(name), blob: await response.blob() };
}

async function request(path, options, take = read) {
  try {
    return await take(await fetch(path, options));
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Refused(0, { error: "The studio does not answer. Is it still running?" });
  }
}

export const get = (path) => request(path);
export const getFile = (path) => request(path, {}, readFile);

export const post = (path, body) =>
  request(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ author, ...body }),
  });

/** Who works here: undo takes back one's own actions. */
export const author = (() => {
  let own = localStorage.getItem("unitail-author");
  if (!own) {
    own = [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16)).join("");
    localStorage.setItem("unitail-author", own);
  }
  return own;
})();
