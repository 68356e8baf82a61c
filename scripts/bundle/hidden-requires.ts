import { readFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import type { Plugin } from "esbuild";

/** Taken where they are installed, and no installation without tools has them: for colours, of cli-table3 and of debug. */
export const neverInstalled = ["@colors/colors/safe", "supports-color"];

/** By its maker: rolldown's own name for `require` in a package of modules, which no other bundler looks through. */
const hidden = /\b__require\((?=")/g;

/** What a package of modules requires when it comes to need it is bundled as well. */
export const hiddenRequires: Plugin = {
  name: "hidden-requires",
  setup(build) {
    build.onLoad({ filter: /\/node_modules\/.*\.mjs$/ }, async ({ path }) => {
      const text = await readFile(path, "utf8");
      return { contents: text.replace(hidden, "require("), loader: "js" };
    });
  },
};

/** A package that is left out is missed when it is needed, which may be days after a start. */
export const refuseLeftOut = (file: string, text: string): void => {
  for (const [, name = ""] of text.matchAll(/\b_*require\w*\("([^"./][^"]*)"\)/g))
    if (!isBuiltin(name) && !neverInstalled.includes(name))
      throw new Error(`the bundle leaves ${name} out, which ${file} requires`);
};
