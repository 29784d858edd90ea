// What the pages can do beyond being read. The server escapes all texts: this file makes no markup of its own, and
// shows answers as text. The token lives in this variable alone, and leaves it in the header of a fetch.
"use strict";
let token = "";
const policy = window.trustedTypes ? window.trustedTypes.createPolicy("page", {createHTML: (html) => html}) : null;
const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
// Told to those who listen; what went wrong is shown to those who look, too.
const say = (text, isWrong = false) => {
  one("#said").textContent = text;
  one("#said").className = isWrong ? "wrong" : "unseen";
};

function ask(url, options = {}) {
  const headers = {...options.headers, ...(token ? {Authorization: "Bearer " + token} : {})};
  return fetch(url, {credentials: "omit", redirect: "error", cache: "no-store", ...options, headers});
}

// With a token, pages come by fetch, since a link would not carry it.
async function go(url, push = true) {
  const response = await ask(url);
  const html = await response.text();
  if (!(response.headers.get("Content-Type") || "").startsWith("text/html")) {
    say("The gateway answered " + response.status + ".", true);
    return response;
  }
  const page = new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
  if (push) history.pushState(null, "", url);
  document.title = page.title;
  one("main").replaceWith(document.adoptNode(one("main", page)));
  const [header, shown] = [one("header.top", page), one("header.top")];
  if (header && shown) one("nav", shown).replaceWith(document.adoptNode(one("nav", header)));
  else if (header) one("main").before(document.adoptNode(header));
  enhance(document);
  const anchor = location.hash && document.getElementById(location.hash.slice(1));
  if (anchor) anchor.scrollIntoView(); else window.scrollTo(0, 0);
  unfold();
  one("main").focus({preventScroll: true});
  say(document.title);
  return response;
}

// As go, where nobody waits: what goes wrong on the way is said. Returns null then.
const visit = (url, push = true) => go(url, push).catch((error) => { say(String(error), true); return null; });

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!token || !link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || link.classList.contains("skip")) return;
  if (url.pathname === location.pathname && url.search === location.search && url.hash) return;
  event.preventDefault();
  visit(url.href);
});
window.addEventListener("popstate", () => { if (token) visit(location.href, false); });

function enhance(root) {
  all("[data-token]:not([data-on])", root).forEach(takeToken);
  all("[data-search]:not([data-on])", root).forEach(search);
  all("[data-copy]:not([data-on])", root).forEach(copy);
  all("[data-try]:not([data-on])", root).forEach(tryIt);
  all("[data-act]:not([data-on])", root).forEach(act);
}

function takeToken(form) {
  form.hidden = false;
  form.dataset.on = "";
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    token = one("input", form).value.trim().replace(/^Bearer +/i, "");
    const response = await visit(location.href, false);
    if (response && response.ok) say(token ? "The token is accepted." : "The token is forgotten.");
  });
}

function search(form) {
  form.dataset.on = "";
  form.addEventListener("submit", (event) => {
    if (!token) return;
    event.preventDefault();
    visit(new URL(form.getAttribute("action") || "", location.href) + "?" + new URLSearchParams(new FormData(form)));
  });
}

function copy(button) {
  button.hidden = false;
  button.dataset.on = "";
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch { // only HTTPS and loopback have a clipboard
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    say(button.textContent);
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

function valueOf(field) {
  const text = field.value;
  if (field.dataset.kind === "string") return text;
  if (field.dataset.kind === "json") return JSON.parse(text);
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

const pretty = (value) => JSON.stringify(value, null, 2);

// Whether the gateway asks for nothing but a person's consent. Other questions are shown as they are.
function isConsent(questions) {
  const names = Object.keys(questions);
  return names.length === 1 && names[0] === "confirm" && questions.confirm.method === "elicitation/create";
}

// Whether a person agrees to a call. Browsers cut what they show in a dialog of their own.
function agreed(section, text) {
  const dialog = one("#consent", section);
  one("#asked", dialog).textContent = text;
  for (const button of all("button", dialog)) button.onclick = () => dialog.close(button.value);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "agree"), {once: true});
  });
}

// A form with a field for each argument, and the same arguments as JSON. Whichever was changed last counts.
function tryIt(section) {
  const [form, answer, shown] = [one("form", section), one(".answer", section), one("[data-plan]", section)];
  const [json, fields] = [one("#json", form), all("[data-name]", form)];
  const show = (id, text) => { one("#" + id, section).textContent = text; };
  section.dataset.on = "";
  form.hidden = false;
  for (const field of fields) {
    field.addEventListener("input", () => {
      let values = {};
      try { values = JSON.parse(json.value); } catch { /* what cannot be read is replaced */ }
      try {
        if (field.value === "") delete values[field.dataset.name]; else values[field.dataset.name] = valueOf(field);
        field.removeAttribute("aria-invalid");
        json.value = pretty(values);
      } catch { field.setAttribute("aria-invalid", "true"); }
    });
  }
  json.addEventListener("input", () => {
    let values;
    try { values = JSON.parse(json.value); } catch { json.setAttribute("aria-invalid", "true"); return; }
    json.removeAttribute("aria-invalid");
    for (const field of fields) {
      const value = values[field.dataset.name];
      field.value = value === undefined ? "" : typeof value === "string" && field.dataset.kind !== "json" ? value : JSON.stringify(value);
    }
  });

  function answered(text, bad) {
    show("answer", text);
    one("#answer", section).classList.toggle("bad", bad);
    say((bad ? "Refused: " : "Answer: ") + text.slice(0, 200));
  }

  async function refusal(response) {
    let text = await response.text();
    try { const {error} = JSON.parse(text); text = error.message || text; } catch { /* it is no JSON */ }
    const wants = /scope="([^"]*)"/.exec(response.headers.get("WWW-Authenticate") || "");
    const scopes = response.status === 401 || response.status === 403 ? (wants ? wants[1] : section.dataset.scopes) : "";
    return response.status + ": " + text + (scopes ? "\nIt needs a token with: " + scopes : "");
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const calls = !event.submitter || event.submitter.value === "call";
    answer.hidden = false;
    shown.hidden = true;
    for (const id of ["sent", "request", "curl"]) show(id, "");
    let values;
    try { values = JSON.parse(json.value); } catch (error) { answered("The JSON cannot be read: " + error.message, true); return; }
    try {
      const checked = await ask(section.dataset.try, {
        method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({arguments: values}),
      });
      if (!checked.ok) { answered(await refusal(checked), true); return; }
      const plan = await checked.json();
      if (plan.faults) { answered("Nothing was sent:\n" + plan.faults.join("\n"), true); return; }
      show("sent", pretty({method: plan.method, ...("params" in plan && plan.params !== null ? {params: plan.params} : {})}));
      const head = Object.entries(plan.request.headers).map(([name, value]) => name + ": " + value);
      show("request", ["POST " + plan.request.url, ...head, "", pretty(JSON.parse(plan.request.body))].join("\n"));
      show("curl", plan.curl);
      shown.hidden = false;
      if (!calls) { answered("These arguments are good. Nothing was sent.", false); return; }
      if ("destroys" in section.dataset && !window.confirm("This tool may destroy something. Call it?")) {
        answered("Not called.", false);
        return;
      }
      const call = (body) => ask(section.dataset.mcp, {method: "POST", headers: plan.request.headers, body});
      let response = await call(plan.request.body);
      if (!response.ok) { answered(await refusal(response), true); return; }
      let message = JSON.parse(await response.text());
      const questions = message.result && message.result.inputRequests || {};
      if (isConsent(questions)) {
        const body = JSON.parse(plan.request.body);
        const action = await agreed(section, questions.confirm.params.message) ? "accept" : "decline";
        Object.assign(body.params, {requestState: message.result.requestState, inputResponses: {confirm: {action, content: {}}}});
        response = await call(JSON.stringify(body));
        if (!response.ok) { answered(await refusal(response), true); return; }
        message = JSON.parse(await response.text());
      }
      answered(pretty(message.error || message.result), Boolean(message.error || message.result.isError));
    } catch (error) { answered(String(error), true); }
  });
}

// A link to something folded opens it.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
window.addEventListener("hashchange", unfold);

// The buttons of the admin page.
function act(button) {
  button.hidden = false;
  button.dataset.on = "";
  button.addEventListener("click", async () => {
    button.disabled = true;
    say(button.textContent + " …");
    try {
      const response = await ask(button.dataset.act, {method: "POST"});
      const text = (await response.text()).trim();
      await go(location.href, false);
      one("#outcome").textContent = text;
      say(text);
    } catch (error) { say(String(error), true); }
    button.disabled = false;
  });
}

enhance(document);
unfold();
