const $ = (id) => document.getElementById(id);
const TABLES = { ".csv": [",", ";", "\t", "|"], ".tsv": ["\t"], ".tab": ["\t"] };
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

async function columnNames(file) { // in a table's first row; which sign separates them is a guess
  const kind = kindOf(file), [first] = (await file.slice(0, 1 << 16).text()).replace(/^\ufeff/, "").split(/\r?\n/);
  const split = (sign) => {
    const names = [""];
    let quoted = false;
    for (const character of first) {
      if (character === '"' && kind === ".csv") quoted = !quoted;
      else if (character === sign && !quoted) names.push("");
      else names[names.length - 1] += character;
    }
    return names;
  };
  return TABLES[kind].map(split).reduce((best, one) => one.length > best.length ? one : best).filter(Boolean);
}
