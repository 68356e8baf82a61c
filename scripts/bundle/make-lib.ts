import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build } from "esbuild";
import { hiddenRequires, neverInstalled, refuseLeftOut } from "./hidden-requires.ts";
import { lineTable } from "./line-table.ts";
import { namesOfCommonJs } from "./names-of-common-js.ts";
import { type OwnUrlsOptions, ownUrls } from "./own-urls.ts";

/** What a plugin of esbuild made is of no file. */
const isFile = (input: string): boolean => !/^[\w-]+:/.test(input);

/** The code of all programs, in one folder that needs nothing beside it but Node. Resolves with the files, from the root, that it is made of. */
export const makeLib = async (options: OwnUrlsOptions & { readonly node: number }): Promise<readonly string[]> => {
  const { root, programs, lib, node } = options;
  mkdirSync(lib, { recursive: true });
  const { metafile, outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: { ...programs },
    outdir: lib,
    bundle: true,
    // What is imported lazily stays in files of its own: a command loads what it needs.
    splitting: true,
    format: "esm",
    platform: "node",
    target: `node${node}`,
    // Not minified: a table of lines has one source line for each line of the bundle.
    sourcemap: "external",
    sourcesContent: false,
    metafile: true,
    write: false,
    external: neverInstalled,
    // Packages in CommonJS require what Node has, and ask for their own folder.
    banner: {
      js: 'import { createRequire as requireHere } from "node:module"; const require = requireHere(import.meta.url);',
    },
    define: { __dirname: "import.meta.dirname", __filename: "import.meta.filename" },
    plugins: [namesOfCommonJs, hiddenRequires, ownUrls(options)],
    logLevel: "silent",
  });
  const fromRoot = (source: string): string => path.relative(root, path.resolve(lib, source));
  const texts = new Map(outputFiles.map((file) => [file.path, file.text]));
  for (const [file, text] of texts) {
    const map = texts.get(`${file}.map`);
    if (map === undefined) continue;
    refuseLeftOut(path.basename(file), text);
    writeFileSync(file, text);
    writeFileSync(`${file}.lines`, JSON.stringify(lineTable(text, map, fromRoot)));
  }
  return Object.keys(metafile.inputs).filter(isFile);
};
