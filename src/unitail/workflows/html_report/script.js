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
  const filter = () => {
    const label = by("class").value, words = by("search").value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const card of cards) {
      const text = texts.get(card);
      const fits = (!label || card.dataset.label === label) && words.every((word) => text.includes(word));
      card.hidden = !fits;
      shown += fits;
    }
    by("count").value = `${shown} of ${cards.length}`;
  };
  by("sort").addEventListener("change", sort);
  by("class").addEventListener("change", filter);
  by("search").addEventListener("input", filter);
  by("controls").addEventListener("submit", (event) => event.preventDefault());
  by("controls").hidden = false;
  sort();
  filter();
})();
