// Asks the server for views, and remembers what the page asked for.

export async function fetchJson(address) {
  let response;
  try {
    response = await fetch(address, { headers: { Accept: "application/json" } });
  } catch {
    throw new Error("The viewer's server does not answer: is steelyard view still running?");
  }
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Error(body?.error ?? `the server answered ${response.status}`);
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

/** The same question as a command. */
export function command(run, view, parameters) {
  const words = [];
  for (const [name, value] of new URLSearchParams(query(parameters))) words.push(name === "ids" ? value : `${name}=${value}`);
  const quoted = words.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", "'\\''")}'`));
  return ["steelyard show", run, view, ...quoted, "--json"].join(" ");
}
