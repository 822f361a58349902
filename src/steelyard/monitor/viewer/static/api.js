// Asks the server for views, and writes the addresses and commands that mean the same.

/** `passing` of an error says that the same question may be answered a little later. */
function failed(sentence, passing) {
  return Object.assign(new Error(sentence), { passing });
}

export async function fetchJson(address) {
  let response;
  try {
    response = await fetch(address, { headers: { Accept: "application/json" } });
  } catch {
    throw failed("The viewer's server does not answer: is steelyard view still running?", true);
  }
  const body = await response.json().catch(() => null);
  if (!response.ok) throw failed(body?.error ?? `the server answered ${response.status}`, response.status >= 500);
  return body;
}

/** Parameters as pairs: {ids: [a, b], limit: 50} → ids=a&ids=b&limit=50; empty ones are left out. */
export function query(parameters) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") pairs.append(name, one);
    }
  }
  const text = pairs.toString();
  return text ? `?${text}` : "";
}

export const apiAddress = (run, view, parameters) =>
  `/api/${encodeURIComponent(run)}/${encodeURIComponent(view)}${query(parameters)}`;

export const pageAddress = (run, page, parameters) =>
  `/r/${encodeURIComponent(run)}/${encodeURIComponent(page)}${query(parameters)}`;

/** The same question as a command, for the run in `directory`. */
export function command(directory, view, parameters) {
  const words = [...new URLSearchParams(query(parameters))].map(([name, value]) => (name === "ids" ? value : `${name}=${value}`));
  return ["steelyard show", ...[directory, view, ...words].map(quoted), "--json"].join(" ");
}
export const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
