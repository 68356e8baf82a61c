import path from "node:path";

const repo = path.resolve(import.meta.dirname, "../..");

const sources = {
  controller: "services/controller/src/main.ts",
  "node-agent": "services/node-agent/src/main.ts",
  "local-driver": "packages/local-driver/src/main.ts",
};

export type Service = keyof typeof sources;

/** What Node starts: the sources, or the bundle in the folder that HOLDFAST_TEST_BUNDLE names, from the root of this repository. */
export const serviceProgram = (service: Service): string => {
  const bundle = process.env["HOLDFAST_TEST_BUNDLE"];
  return path.resolve(repo, bundle === undefined ? sources[service] : path.join(bundle, `bin/holdfast-${service}.mjs`));
};
