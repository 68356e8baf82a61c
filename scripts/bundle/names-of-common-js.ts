import { createRequire } from "node:module";
import { types } from "node:util";
import type { Plugin } from "esbuild";

const namespace = "common-js";
const load: (file: string) => object = createRequire(import.meta.url);

interface Names {
  readonly names: readonly string[];
  readonly resolveDir: string;
}

/** A package in CommonJS that is imported lazily has a default export alone by esbuild, where Node finds its names too. */
export const namesOfCommonJs: Plugin = {
  name: "names-of-common-js",
  setup(build) {
    build.onResolve({ filter: /^[^.]/ }, async ({ path, kind, resolveDir, pluginData }) => {
      if (kind !== "dynamic-import" || pluginData === "resolved") return undefined;
      const found = await build.resolve(path, { kind, resolveDir, pluginData: "resolved" });
      if (!found.path.includes("/node_modules/")) return undefined;
      const exported = load(found.path);
      if (types.isModuleNamespaceObject(exported)) return undefined;
      return { path, namespace, pluginData: { names: Object.keys(exported), resolveDir } satisfies Names };
    });
    build.onLoad({ filter: /./, namespace }, ({ path, pluginData }) => {
      const { names, resolveDir } = pluginData as Names;
      const own = names.filter((name) => /^[\w$]+$/.test(name) && name !== "default");
      return { contents: `export { ${own.join(", ")} } from ${JSON.stringify(path)};\n`, resolveDir };
    });
  },
};
