"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const holder = by("cards");
  const cards = [...holder.children];
  const texts = new Map(cards.map((card) => [card, card.textContent.toLowerCase()]));
  const number = (key) => (card) => Number(card.dataset[key]);
  const probability = number("p"), novelty = number("novelty"), place = number("place");
  const orders = {
    uncertain: (a, b) => probability(a) - probability(b),
    certain: (a, b) => probability(b) - probability(a),
    novelty: (a, b) => novelty(b) - novelty(a),
    label: (a, b) => a.dataset.label.localeCompare(b.dataset.label) || probability(a) - probability(b),
    place: () => 0,
  };
  const sort = () => {
    const order = orders[by("sort").value];
    cards.sort((a, b) => order(a, b) || place(a) - place(b));
    holder.append(...cards);
  };
  for (const near of holder.querySelectorAll(".near a")) {
    const image = document.querySelector(`${near.getAttribute("href")} img`);
    if (image) {
      near.title = near.textContent;
      near.replaceChildren(image.cloneNode(), near.querySelector("b"));
      near.parentElement.parentElement.classList.add("images");
    }
    near.addEventListener("click", () => { by("examples").open = true; });
  }
  const tiles = [...by("tiles").querySelectorAll("button")];
  const filter = () => {
    const tile = tiles.find((each) => each.ariaPressed === "true"), state = tile?.dataset.state;
    const label = by("class").value, words = by("search").value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const card of cards) {
      const text = texts.get(card);
      const fits = (!state || card.dataset.state === state) && (!label || card.dataset.label === label)
        && words.every((word) => text.includes(word));
      card.hidden = !fits;
      shown += fits;
    }
    by("count").value = `${shown} of ${cards.length}`;
  };
  const fields = [...holder.querySelectorAll(".correct input")];
  const corrected = () => fields.filter((field) => field.value.trim());
  const quoted = (cell) => `"${String(cell ?? "").replaceAll('"', '""')}"`;
  const corrections = () => {
    const column = by("download").dataset.column;
    const rows = corrected().map((field) => (
      { ...JSON.parse(field.dataset.record), [column]: field.value.trim() }
    ));
    const columns = [...new Set(rows.flatMap(Object.keys))];
    const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))];
    return lines.map((cells) => cells.map(quoted).join(",") + "\n").join("");
  };
  const count = () => {
    const number = corrected().length;
    by("download").disabled = !number;
    by("download").textContent = number ? `Download corrections (${number})` : "Download corrections";
  };
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([corrections()], { type: "text/csv" }));
    link.download = "corrections.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  for (const tile of tiles) {
    tile.disabled = false;
    tile.addEventListener("click", () => {
      const pressed = tile.ariaPressed !== "true";
      for (const each of tiles) each.ariaPressed = String(pressed && each === tile);
      filter();
    });
  }
  for (const field of fields) field.parentElement.hidden = false;
  holder.addEventListener("input", count);
  by("download").addEventListener("click", download);
  addEventListener("beforeunload", (event) => { if (corrected().length) event.preventDefault(); });
  count();
  by("sort").addEventListener("change", sort);
  by("size").addEventListener("change", () => { holder.className = by("size").value; });
  by("class").addEventListener("change", filter);
  by("search").addEventListener("input", filter);
  by("controls").addEventListener("submit", (event) => event.preventDefault());
  by("controls").hidden = false;
  sort();
  filter();
})();
