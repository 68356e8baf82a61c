// `npm run bundle` makes dist/: what images and the package `holdfast` contain, with nothing to install beside it but Node (ADR 26).
import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { makeLib } from "./bundle/make-lib.ts";
import { licenceTexts } from "./docs/licence-texts.ts";
import { cache, root } from "./paths.mjs";

/** Program of deploy/package/bin → the file that starts it. */
const programs = {
  holdfast: "packages/cli/src/main.ts",
  "holdfast-controller": "services/controller/src/main.ts",
  "holdfast-node-agent": "services/node-agent/src/main.ts",
  "holdfast-local-driver": "packages/local-driver/src/main.ts",
};

const dist = path.join(root, "dist");
const work = path.join(cache, `bundle-${process.pid}`);
const { version, description, license, engines } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));

try {
  cpSync(path.join(root, "deploy/package"), work, { recursive: true });
  const node = Number(/\d+/.exec(engines.node)?.[0]);
  const files = await makeLib({ root, programs, lib: path.join(work, "lib"), node });
  writeFileSync(path.join(work, "THIRD-PARTY-LICENCES"), licenceTexts(root, files));
  cpSync(path.join(root, "LICENSE"), path.join(work, "LICENSE"));
  const bin = Object.fromEntries(Object.keys(programs).map((name) => [name, `bin/${name}.mjs`]));
  const manifest = { name: "holdfast", version, description, license, type: "module", engines, bin };
  writeFileSync(path.join(work, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  rmSync(dist, { recursive: true, force: true });
  renameSync(work, dist);
} finally {
  rmSync(work, { recursive: true, force: true });
}
