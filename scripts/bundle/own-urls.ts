import { copyFileSync, existsSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Plugin } from "esbuild";

export interface OwnUrlsOptions {
  readonly root: string;
  /** Program of deploy/package/bin → the file that starts it, from the root. */
  readonly programs: Readonly<Record<string, string>>;
  /** Where the code of the bundle lies. */
  readonly lib: string;
}

const ownUrl = /new URL\("([^"]+)", import\.meta\.url\)/g;

/**
 * Files that the code names by `new URL("…", import.meta.url)`: a program is started by its file in bin, and a file that is read at run time lies
 * beside the code as a copy. Another use of import.meta would find nothing there, and stops the bundle.
 */
export const ownUrls = ({ root, programs, lib }: OwnUrlsOptions): Plugin => {
  const programOf = new Map(Object.entries(programs).map(([name, file]) => [path.join(root, file), name]));
  const copies = new Map<string, string>();

  const placeOf = (file: string, from: string): string => {
    const program = programOf.get(file);
    if (program !== undefined) return `../bin/${program}.mjs`;
    const name = path.basename(file);
    if (name.endsWith(".ts") || !existsSync(file))
      throw new Error(
        `${from} names ${path.relative(root, file)}, which is no program of the bundle and no file to copy`,
      );
    if ((copies.get(name) ?? file) !== file) throw new Error(`two files that the bundle copies have the name ${name}`);
    copies.set(name, file);
    copyFileSync(file, path.join(lib, name));
    return `./${name}`;
  };

  const withPlaces = (file: string): string => {
    const from = path.relative(root, file);
    const text = readFileSync(file, "utf8");
    if (/import\.meta\b/.test(text.replaceAll(ownUrl, "")))
      throw new Error(
        `${from} uses import.meta in another way than new URL("file", import.meta.url): the bundle cannot follow`,
      );
    return text.replaceAll(ownUrl, (_, to: string) => {
      return `new URL("${placeOf(path.resolve(path.dirname(file), to), from)}", import.meta.url)`;
    });
  };

  return {
    name: "own-urls",
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path: file }) =>
        file.includes("/node_modules/") ? undefined : { contents: withPlaces(file), loader: "ts" },
      );
    },
  };
};
