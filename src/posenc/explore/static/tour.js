/** The bar of the tour: a question first, then what Python says about the answer. */

import { el, rebuild, whenChanged } from "./dom.js";

const answers = new Map();

function buttonTo(text, changes, act, kind = "tool") {
  return el("button", { type: "button", class: kind, onclick: () => act(changes, true) }, text);
}

/** A choice reveals the answer; which one was taken is kept until the page is left. */
function choices(tour, act) {
  const mine = answers.get(tour.n);
  return el("div", { class: "answers", role: "group", "aria-label": "Answers" }, ...tour.choices.map((choice) => {
    const right = tour.answered && choice.id === tour.right;
    const wrong = tour.answered && choice.id === mine && !right;
    const mark = right ? "✓ " : wrong ? "✗ " : "";
    const kind = `answer${right ? " right" : ""}${wrong ? " wrong" : ""}`;
    const take = () => {
      answers.set(tour.n, choice.id);
      act(tour.reveal, false);
    };
    const pressed = mine === choice.id ? "true" : "false";
    return el("button", { type: "button", class: kind, "aria-pressed": pressed, disabled: tour.answered, onclick: take }, mark + choice.text);
  }));
}

function verdict(tour) {
  if (!tour.answered) return [];
  const mine = answers.get(tour.n);
  const word = mine === undefined ? "" : mine === tour.right ? "Yes. " : "Not quite. ";
  return [el("p", { class: "explanation", tabindex: -1 }, el("strong", {}, word), tour.explanation ?? "")];
}

function steps(tour, { act, jump, leave }) {
  const parts = [];
  if (tour.here) parts.push(buttonTo("Show the picture of this stop", tour.here, jump, "tool main"));
  if (!tour.answered && tour.question) parts.push(buttonTo("Show the answer", tour.reveal, act));
  if (tour.previous) parts.push(buttonTo("Back", tour.previous, jump));
  if (tour.next) parts.push(buttonTo(tour.answered ? "Next stop" : "Skip", tour.next, jump, tour.answered ? "tool main" : "tool"));
  parts.push(buttonTo("Leave the tour", null, leave));
  return el("div", { class: "steps" }, ...parts);
}

/** Shows the stop of the header, or nothing. Of the deeds, `act` makes changes, `jump` goes to a
 *  whole state, and `leave` gives back the one from before. */
export function showTour(host, tour, deeds) {
  host.hidden = !tour;
  if (!tour) return;
  whenChanged(host, [tour, answers.get(tour.n)], () => {
    const revealed = host.posencAnswered === false && tour.answered;
    host.posencAnswered = Boolean(tour.answered);
    const count = el("span", { class: "count" }, `${tour.n} of ${tour.of}`);
    const question = tour.question ? [el("p", { class: "question" }, tour.question), choices(tour, deeds.act)] : [];
    rebuild(host, [
      el("h2", {}, count, " ", tour.title),
      el("p", {}, tour.text),
      ...question,
      ...verdict(tour),
      steps(tour, deeds),
    ]);
    if (revealed) host.querySelector(".explanation")?.focus();
  });
}
