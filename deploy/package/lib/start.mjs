// What has to be there before the first module of a program is loaded; then the program.
import { existsSync } from "node:fs";
import module from "node:module";
import path from "node:path";
import { nameSources } from "./source-lines.mjs";

const oldest = 24;
/** Made by holdfast-compile-cache. Without it everything is compiled anew; Node's own default in /tmp would be anybody's to fill. */
export const compileCache = path.join(import.meta.dirname, "..", "compile-cache");

/** @param {string} program a file of this folder, without its ending */
export async function start(program) {
  if (Number(process.versions.node.split(".")[0]) < oldest) {
    process.stderr.write(`holdfast: Node ${oldest} or newer is needed, and this is ${process.version}\n`);
    process.exitCode = 2;
    return;
  }
  nameSources(import.meta.dirname);
  if (existsSync(compileCache)) module.enableCompileCache(compileCache);
  await import(`./${program}.js`);
}
