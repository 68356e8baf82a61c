// Names the sources in stack traces. Node's own source maps cost each start 0.15 s of CPU; these tables are read when the first stack is.
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

/** After this call a frame in `folder` names the file and line of the source. @param {string} folder */
export function nameSources(folder) {
  const start = `${pathToFileURL(folder).href}/`;
  const tables = new Map();
  const table = (file) => {
    if (!tables.has(file)) tables.set(file, readTable(path.join(folder, `${file}.lines`)));
    return tables.get(file);
  };
  const named = (place, file, line) => {
    const { sources, lines } = table(file);
    const source = sources[lines[2 * line - 2]];
    return source === undefined ? place : `${source}:${lines[2 * line - 1]}`;
  };
  const places = new RegExp(`${RegExp.escape(start)}([^/:]+\\.js):(\\d+):\\d+`, "g");
  Error.prepareStackTrace = (error, frames) => {
    const stack = [headOf(error), ...frames.map((frame) => `    at ${frame}`)].join("\n");
    return stack.replace(places, named);
  };
}

function headOf(error) {
  try {
    return Error.prototype.toString.call(error);
  } catch {
    return "Error";
  }
}

/** Without the file a stack is told as it is: a stack is asked for where something failed already. */
function readTable(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return { sources: [], lines: [] };
  }
}
