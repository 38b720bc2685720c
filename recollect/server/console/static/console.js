// Behaviour of the console: the theme, the menu, the chat, forms, and asking before something is done for good.
// It is loaded before the page is drawn, so that a dark page is never white first.
"use strict";

const THEME = "recollect-theme";
const root = document.documentElement;

function chosenTheme() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null; // no storage here: the theme of the system counts
  }
}

if (chosenTheme()) root.dataset.theme = chosenTheme();

document.addEventListener("alpine:init", () => {
  Alpine.data("theme", () => ({
    isDark: false,
    init() {
      const system = matchMedia("(prefers-color-scheme: dark)");
      const read = () => (this.isDark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
      system.addEventListener("change", read);
      read();
    },
    get label() {
      return this.isDark ? "Switch to light" : "Switch to dark";
    },
    flip() {
      this.isDark = !this.isDark;
      root.dataset.theme = this.isDark ? "dark" : "light";
      try {
        localStorage.setItem(THEME, root.dataset.theme);
      } catch {
        // it counts for this page only
      }
    },
  }));

  Alpine.data("menu", () => ({
    isOpen: false,
    flip() {
      this.isOpen = !this.isOpen;
    },
    close() {
      if (this.isOpen) this.$refs.opener.focus(); // not on a page of the menu, which can no longer be seen
      this.isOpen = false;
    },
  }));

  // What was said stands in the conversation at once; the answer takes its place beside it when it comes.
  Alpine.data("composer", () => ({
    said: "",
    init() {
      const on = (name, act) => this.$root.addEventListener(name, act.bind(this));
      on("htmx:before:request", this.sending);
      on("htmx:response:error", this.failed);
      on("htmx:error", this.failed);
      on("htmx:finally:request", this.answered);
      toNewest("instant");
    },
    send(event) {
      if (event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (this.$refs.text.value.trim()) this.$root.requestSubmit();
    },
    grow() {
      const text = this.$refs.text;
      text.style.height = "auto";
      text.style.height = `${Math.min(text.scrollHeight + 2, 180)}px`;
    },
    sending(event) {
      event.detail.ctx.fetch = readReply;
      this.said = this.$refs.text.value;
      const waiting = document.getElementById("waiting").content.cloneNode(true);
      waiting.querySelector("[data-said]").textContent = this.said;
      document.getElementById("hello")?.setAttribute("hidden", "");
      document.getElementById("log").append(waiting);
      this.$refs.text.value = "";
      this.grow();
      toNewest();
    },
    failed() {
      if (!document.querySelector("#log .bubble:not([data-waiting])")) document.getElementById("hello")?.removeAttribute("hidden");
      const typed = this.$refs.text.value; // meanwhile
      this.$refs.text.value = typed && typed !== this.said ? `${this.said}\n${typed}` : this.said;
      this.grow();
    },
    answered() {
      document.querySelectorAll("[data-waiting]").forEach((each) => each.remove());
      toNewest();
      this.$refs.text.focus();
    },
  }));
});

// A page that is older than the server, which was started again, is given a new proof for its forms, and sends again.
// If a key must be shown first, what was typed is kept until its page is back.
async function post(address, request) {
  const response = await fetch(address, request);
  const proof = response.headers.get("X-Proof");
  if (proof) {
    for (const field of document.querySelectorAll("input[name=proof]")) field.value = proof;
    request.body.set("proof", proof);
    return fetch(address, request);
  }
  if (response.status === 401) keepTyped(address, request.body);
  return response;
}

const TYPED = "recollect-typed";

function keepTyped(address, body) {
  const fields = [...body].filter(([name]) => name !== "proof");
  keep(TYPED, { action: new URL(address, location).href, fields });
}

// The reply comes as events: pieces are shown as they come, and at the end htmx gets the page that they make.
async function readReply(address, request) {
  const response = await post(address, request);
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
  const reply = document.querySelector("[data-reply]");
  let text = "";
  for await (const [name, data] of eventsOf(response)) {
    if (name === "done") return new Response(data.html);
    const place = { "HX-Retarget": "#notices", "HX-Reswap": "innerHTML" };
    if (name === "error") return new Response(data.html, { status: data.status, headers: place });
    text += data.text;
    if (reply) reply.textContent = text;
    toNewest("instant");
  }
  throw new Error("the answer was cut off");
}

async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const [, name, data] = part.match(/^event: (\w+)\ndata: (.*)$/);
      yield [name, JSON.parse(data)];
    }
  }
}

function toNewest(behavior = "smooth") {
  const log = document.getElementById("log");
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches; // what style sheets say does not bind scripts
  log?.scrollTo({ top: log.scrollHeight, behavior: isCalm ? "instant" : behavior });
}

// A form that cannot be taken back asks first, in a dialog that says what it does.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = form.dataset.confirm;
  if (!question || form.dataset.confirmed) return;
  const dialog = document.getElementById("confirm");
  event.preventDefault();
  event.stopImmediatePropagation();
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("[value=yes]").textContent = form.dataset.yes || "Yes";
  dialog.returnValue = "";
  dialog.showModal();
  dialog.addEventListener(
    "close",
    () => {
      if (dialog.returnValue !== "yes") return;
      form.dataset.confirmed = "yes";
      form.requestSubmit();
      delete form.dataset.confirmed; // the next time it asks again
    },
    { once: true },
  );
}, true);

// A form is sent from the page it is on, so that what goes wrong is said there and nothing typed is lost. One that opens
// a page of its own, such as a new key, is left to the browser.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post" || "opens" in form.dataset || !noticeBoard()) return;
  event.preventDefault();
  if (form.ariaBusy) return; // once is enough
  form.ariaBusy = "true";
  try {
    const body = new URLSearchParams(new FormData(form));
    const response = await post(form.action, { method: "POST", body, headers: { "HX-Request": "true" } });
    const next = response.headers.get("HX-Redirect");
    if (next) {
      keepPlace(form, next);
      location.assign(next);
      return;
    }
    if (!response.headers.get("content-type")?.startsWith("text/html")) throw new Error(response.statusText);
    noticeBoard().innerHTML = await response.text();
    form.elements[noticeBoard().querySelector("[data-field]")?.dataset.field]?.focus();
  } catch {
    tellUnanswered();
  } finally {
    form.ariaBusy = null; // also for whoever comes back to this page
  }
});

function noticeBoard() {
  return document.getElementById("notices");
}

function tellUnanswered() {
  noticeBoard()?.replaceChildren(document.getElementById("unanswered").content.cloneNode(true));
}

document.addEventListener("htmx:error", (event) => {
  if (event.detail.error?.name !== "AbortError") tellUnanswered(); // a newer question stops an older one
});
document.addEventListener("htmx:before:request", () => document.querySelector("#notices .danger")?.remove());

// After an action on a long page, people find themselves where they were, on what they acted on.
const PLACE = "recollect-place";

function keepPlace(form, next) {
  keep(PLACE, { next: new URL(next, location).href, y: scrollY, about: subject(form), action: form.action });
}

// What the next page of this tab should know, once.
function keep(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // no storage here: the page begins at its top, and what was typed has to be typed again
  }
}

function taken(name) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(name));
    sessionStorage.removeItem(name);
    return kept;
  } catch {
    return null;
  }
}

// What a form acts on: the address without the last word, which says how, and what it carries unseen.
function subject(form) {
  const carried = [...form.querySelectorAll("input[type=hidden]:not([name=proof])")].map((each) => each.value);
  return [form.action.replace(/[^/]*$/, ""), ...carried].join("\n");
}

// What was typed is back where it was once somebody has signed in again.
document.addEventListener("DOMContentLoaded", () => {
  const kept = taken(TYPED);
  if (!kept) return;
  const alike = (form) => kept.fields.filter(([name, value]) => form.elements[name]?.value === value).length;
  const forms = [...document.forms].filter((form) => form.method === "post" && form.action === kept.action);
  const [form] = forms.sort((one, other) => alike(other) - alike(one));
  if (!form) return keep(TYPED, kept); // this is the page to sign in on
  for (const [name, value] of kept.fields) {
    const field = form.elements[name];
    if (!field || field.type === "hidden") continue;
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  form.closest("details")?.setAttribute("open", "");
});

document.addEventListener("DOMContentLoaded", () => {
  const place = taken(PLACE);
  if (place?.next !== location.href) return;
  scrollTo(0, place.y);
  const alike = [...document.forms].filter((form) => form.method === "post" && subject(form) === place.about);
  const same = alike.find((form) => form.action === place.action) ?? alike[0];
  same?.querySelector("input:not([type=hidden]), textarea, select, button")?.focus({ preventScroll: true });
});

// Screen readers tell what changes, not what a page comes with: what was just done is put there once more.
document.addEventListener("DOMContentLoaded", () => {
  const done = document.querySelector("#notices .notice");
  if (done) setTimeout(() => noticeBoard().replaceChildren(done.cloneNode(true)), 500);
});

document.addEventListener("keydown", (event) => {
  const over = event.key === "Escape" && document.activeElement.closest("details.over[open]");
  if (!over) return;
  over.open = false;
  over.querySelector("summary").focus();
});

// Lines for a terminal are copied by a button, where the browser lets a page do that.
document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.previousElementSibling.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it";
      }
      setTimeout(() => (button.textContent = "Copy"), 1600);
    });
  }
});
