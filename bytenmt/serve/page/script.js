"use strict";
const $ = (id) => document.getElementById(id);
let languages = [], settings = {};

function say(text, bad = false) { $("said").textContent = text; $("said").classList.toggle("bad", bad); }

async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function failure(answer) {
  try { return (await answer.json()).error || String(answer.status); } catch { return `the server answered ${answer.status}`; }
}

function option(value, text) { const o = document.createElement("option"); o.value = value; o.textContent = text; return o; }

function nameOf(code) {
  const found = languages.find((one) => one.code === code);
  if (found) return found.name;
  try { return new Intl.DisplayNames(["en"], { type: "language" }).of(code); } catch { return code; }
}

function sources() { return languages.filter((one) => one.targets.some((target) => target !== one.code)); }

function fillTargets() {
  const from = $("from").value, kept = $("to").value;
  const possible = sources().filter((one) => from === "auto" || one.code === from);
  const others = possible.flatMap((one) => one.targets.filter((target) => target !== one.code));
  const codes = [...new Set(others)];
  $("to").replaceChildren(...codes.map((code) => option(code, nameOf(code))));
  if (codes.includes(kept)) $("to").value = kept;
  else if (codes.includes(settings.language.target.code)) $("to").value = settings.language.target.code;
}

// Languages and settings of the server in the fields of the form; false where it does not answer.
async function askServer() {
  try { [languages, settings] = await Promise.all([get("languages"), get("frontend/settings")]); }
  catch (error) { say(`The server does not answer: ${error.message}`, true); return false; }
  $("from").replaceChildren(option("auto", "Detect"), ...sources().map((one) => option(one.code, one.name)));
  $("keyfield").hidden = !settings.keyRequired;
  try { $("key").value = sessionStorage.getItem("key") || ""; } catch { /* no storage */ }
  fillTargets();
  return true;
}

function storeKey() { try { sessionStorage.setItem("key", $("key").value); } catch { /* no storage */ } }

function kindOf(file) { return file.name.slice(file.name.lastIndexOf(".")).toLowerCase(); }

const WAIT = 300; // milliseconds without a key until the text is sent
const SPEAK = 900; // and until a finished translation is read out
const LINGER = 200; // and until a reason is hidden, so that the pointer can reach it
let running = null, timer = 0, speaking = 0, closing = 0, shown = "";

function mark() {
  const from = $("from").value, to = $("to").value;
  for (const [node, code] of [["source", from], ["target", to]])
    if (code && code !== "auto") $(node).lang = code; else $(node).removeAttribute("lang");
  $("swap").disabled = !sources().some((one) => one.code === to && (from === "auto" || one.targets.includes(from)));
}

function body(more) {
  return JSON.stringify({ source: $("from").value, target: $("to").value, api_key: $("key").value, ...more });
}

function stop() { if (running) running.abort(); running = null; clearTimeout(timer); clearTimeout(speaking); }

function typed() {
  stop();
  const text = $("source").value;
  $("mirror").textContent = text + "\n"; // which makes the field as high as its text
  $("clear").disabled = !text;
  $("count").textContent = settings.charLimit ? `${[...text].length.toLocaleString()} of ${settings.charLimit.toLocaleString()}` : "";
  closeOthers();
  if (!text.trim()) { show(""); say(""); $("detail").textContent = ""; return; }
  $("target").classList.add("old");
  timer = setTimeout(translate, WAIT);
}

function speak() {
  speaking = setTimeout(() => { $("spoken").textContent = [shown, $("detail").textContent].join(" "); }, SPEAK);
}

async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
      const fields = Object.fromEntries(rest.slice(0, end).split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
      if (fields.event) yield [fields.event, JSON.parse(fields.data)];
    }
  }
}

async function translate(again = 0) {
  const own = running = new AbortController(), text = $("source").value;
  let found = "";
  try {
    const answer = await fetch("translate", { method: "POST", signal: own.signal, body: body({ q: text, verdicts: true }),
      headers: { "content-type": "application/json", accept: "text/event-stream" } });
    if (answer.status === 429 && again < 5) {
      say("The server is busy: waiting for it.");
      timer = setTimeout(() => translate(again + 1), 1000 * Number(answer.headers.get("retry-after") || 2));
      return;
    }
    if (!answer.ok) throw new Error(await failure(answer));
    say("");
    for await (const [name, data] of events(answer)) {
      if (own.signal.aborted) return;
      if (name === "part") { found += data.text; show(found, false); }
      else if (name === "error") throw new Error(data.error);
      else finished(data);
    }
  } catch (error) {
    if (own.signal.aborted) return;
    show("");
    say(error.message, true);
  } finally { if (running === own) running = null; }
}

function finished(data) {
  show(data.translatedText);
  const guess = data.detectedLanguage, details = underline(data.verdicts);
  if (guess) details.unshift(`${nameOf(guess.language)} (${Math.round(guess.confidence)} %)`);
  $("detail").textContent = details.join(" · ");
  speak();
}

// Underlines the sentences of the translation that are not sure; returns how many, in words.
function underline(verdicts) {
  const characters = [...shown], nodes = [], counts = { check: 0, wrong: 0 };
  let end = 0;
  for (const sentence of verdicts.filter((one) => one.verdict !== "sure")) {
    nodes.push(characters.slice(end, sentence.begin).join(""));
    end = sentence.end;
    nodes.push(doubt(characters.slice(sentence.begin, end).join(""), sentence));
    counts[sentence.verdict]++;
  }
  $("target").replaceChildren(...nodes, characters.slice(end).join(""));
  const words = [];
  if (counts.check) words.push(`${counts.check} to check`);
  if (counts.wrong) words.push(`${counts.wrong} probably wrong`);
  return words;
}

// A sentence that shows the reasons of its verdict when it is pointed at or has the focus.
function doubt(text, { verdict, reasons, unknown_words: unknown }) {
  const span = document.createElement("span");
  span.textContent = text;
  span.className = `doubt ${verdict}`;
  span.tabIndex = 0;
  span.setAttribute("role", "mark");
  span.setAttribute("aria-describedby", "why");
  const heading = verdict === "wrong" ? "Probably wrong" : "Check this";
  const words = unknown.length ? ` (${unknown.join(", ")})` : "";
  const explain = () => openReason(span, `${heading}: ${reasons.join("; ")}${words}.`);
  for (const name of ["pointerenter", "focus"]) span.addEventListener(name, explain);
  for (const name of ["pointerleave", "blur"]) span.addEventListener(name, closeReasonSoon);
  return span;
}

function openReason(span, text) {
  clearTimeout(closing);
  const why = $("why"), box = span.getBoundingClientRect();
  why.textContent = text;
  why.hidden = false;
  const left = Math.min(box.left, document.documentElement.clientWidth - why.offsetWidth - 8);
  why.style.left = `${Math.max(8, left) + scrollX}px`;
  const fitsBelow = box.bottom + why.offsetHeight + 8 <= document.documentElement.clientHeight;
  const top = fitsBelow ? box.bottom + 4 : box.top - why.offsetHeight - 4;
  why.style.top = `${Math.max(4, top) + scrollY}px`;
}

function closeReason() { clearTimeout(closing); $("why").hidden = true; }

function closeReasonSoon() { clearTimeout(closing); closing = setTimeout(closeReason, LINGER); }

function show(text, whole = true) {
  shown = text;
  closeReason();
  $("target").textContent = text;
  $("target").classList.toggle("old", !whole);
  $("copy").disabled = $("more").disabled = !text;
  $("spoken").textContent = "";
}

function closeOthers() { $("others").hidden = true; $("others").replaceChildren(); $("more").setAttribute("aria-expanded", "false"); }

async function openOthers() {
  if (!$("others").hidden) { closeOthers(); return; }
  if (!shown) return;
  const text = $("source").value;
  try {
    const answer = await fetch("translate", { method: "POST", headers: { "content-type": "application/json" },
      body: body({ q: text, alternatives: Math.min(3, settings.alternatives) }) });
    if (!answer.ok) throw new Error(await failure(answer));
    const data = await answer.json();
    if (text !== $("source").value) return;
    const texts = [...new Set([data.translatedText, ...data.alternatives])].filter((one) => one !== shown);
    $("others").replaceChildren(...texts.map((one) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button"; button.textContent = one; button.dir = "auto"; button.lang = $("to").value;
      button.addEventListener("click", () => { closeOthers(); show(one); $("detail").textContent = ""; $("spoken").textContent = one; $("target").focus(); });
      item.append(button);
      return item;
    }));
    $("others").hidden = !texts.length;
    $("more").setAttribute("aria-expanded", String(texts.length > 0));
    say(texts.length ? `${texts.length} more` : "There is no other translation.");
  } catch (error) { say(error.message, true); }
}

async function translateFile(file) {
  if (!file) return;
  const form = new FormData(), fields = JSON.parse(body({}));
  if (!settings.supportedFilesFormat.includes(kindOf(file))) { say(`Files of these kinds are translated: ${settings.supportedFilesFormat.join(", ")}`, true); return; }
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", file);
  say(`Translating ${file.name}…`);
  try {
    const answer = await fetch("translate_file", { method: "POST", body: form });
    if (!answer.ok) throw new Error(await failure(answer));
    const made = await answer.json(), link = document.createElement("a");
    const [token, name] = made.translatedFileUrl.split("/").slice(-2);
    const headers = $("key").value ? { authorization: `Bearer ${$("key").value}` } : {};
    const data = await fetch(`download_file/${token}/${name}`, { headers });
    if (!data.ok) throw new Error(await failure(data));
    link.href = URL.createObjectURL(await data.blob()); link.textContent = link.download = name;
    $("said").classList.remove("bad");
    const doubt = made.unitsToReview ? ` (${made.unitsToReview} of ${made.units} texts to review)` : "";
    $("said").replaceChildren("Translated: ", link, doubt);
    link.focus();
  } catch (error) { say(error.message, true); }
}

function swap() {
  const from = $("from").value, to = $("to").value, text = shown;
  $("from").value = to; fillTargets(); mark();
  if (from !== "auto") { $("to").value = from; mark(); }
  if (text) $("source").value = text;
  typed(); $("source").focus();
}

async function begin() {
  if (!await askServer()) return;
  $("choose").hidden = !settings.filesTranslation;
  $("file").accept = settings.supportedFilesFormat.join(",");
  mark(); typed();
}

$("source").addEventListener("input", typed);
$("from").addEventListener("change", () => { fillTargets(); mark(); typed(); });
$("to").addEventListener("change", () => { mark(); typed(); });
$("key").addEventListener("change", () => { storeKey(); typed(); });
$("form").addEventListener("submit", (event) => event.preventDefault());
$("swap").addEventListener("click", swap);
$("clear").addEventListener("click", () => { $("source").value = ""; typed(); $("source").focus(); });
$("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(shown); say("Copied."); }
  catch { getSelection().selectAllChildren($("target")); say("Selected: copy it with Ctrl+C."); }
});
$("more").addEventListener("click", openOthers);
$("why").addEventListener("pointerenter", () => clearTimeout(closing));
$("why").addEventListener("pointerleave", closeReasonSoon);
$("target").addEventListener("click", () => { if (getSelection().isCollapsed) openOthers(); });
$("choose").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => { translateFile($("file").files[0]); $("file").value = ""; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { stop(); closeOthers(); closeReason(); $("target").classList.remove("old"); say(""); }
  if (event.altKey && event.key.toLowerCase() === "a") { event.preventDefault(); openOthers(); }
});
for (const name of ["dragenter", "dragover"]) document.addEventListener(name, (event) => { event.preventDefault(); $("left").classList.add("over"); });
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("left").classList.remove("over"); });
document.addEventListener("drop", (event) => { event.preventDefault(); $("left").classList.remove("over"); translateFile(event.dataTransfer.files[0]); });
begin();
