/** All images, built by one engine, and a second one on the same data that runs them: the first has a network, the second a bridge. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { blocksOf } from "../documents/guide-walk.ts";
import { root } from "../support/run-go.ts";
import { buildSecrets, makeBaseImages } from "./base-images.ts";
import { createComposeCell, everyProfile } from "./compose-cell.ts";
import { type Engine, startEngine } from "./engine.ts";
import { createFigureTable } from "./figure-table.ts";
import { makeObserverImages } from "./observer-images.ts";
import { createObservers } from "./observers.ts";

export const targets = ["controller", "node-agent", "local-driver", "cli"] as const;
export const oneNode = ["redis", "controller", "node-a", "local-driver"];
export const twoNodes = [...oneNode, "node-b", "local-driver-b"];
const ours = ["trust", "cli", ...twoNodes].filter((name) => name !== "redis");

/** What docs/containers.md says takes all of it away. */
export const takeAwayScript = async (): Promise<string> => {
  const blocks = blocksOf(await readFile(path.join(root, "docs/containers.md"), "utf8"));
  const found = blocks.find(({ text }) => text.includes("losetup"));
  if (found === undefined) throw new Error("docs/containers.md no longer says how all of it is taken away");
  return found.text;
};

const build = async (dir: string): Promise<void> => {
  const builder = await startEngine(dir, "build");
  try {
    await makeBaseImages(builder, dir);
    await makeObserverImages(builder, dir);
    const options = ["--quiet", "--network", "host", ...(await buildSecrets(dir))];
    await builder.program([process.execPath, path.join(root, "scripts/build-images.mjs"), ...options]);
  } finally {
    await builder.stop();
  }
};

export interface ComposeRun {
  readonly dir: string;
  readonly engine: Engine;
  readonly cell: ReturnType<typeof createComposeCell>;
  readonly observers: ReturnType<typeof createObservers>;
  readonly figures: ReturnType<typeof createFigureTable>;
  tell(line: string): void;
  /** Beside the compose file: its builds have the machine's own network for what they install, as those before them had. */
  readonly networkOfBuilds: string;
  stop(): Promise<void>;
}

export const startComposeRun = async (): Promise<ComposeRun> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-containers-"));
  const tell = (line: string): void => void process.stdout.write(`containers: ${line}\n`);
  const figures = createFigureTable(["image", "above its base", "packages", "memory", "ends within"]);
  const networkOfBuilds = path.join(dir, "network-of-builds.json");
  const services = Object.fromEntries(ours.map((name) => [name, { build: { network: "host" } }]));
  await writeFile(networkOfBuilds, JSON.stringify({ services }));
  await build(dir);
  const engine = await startEngine(dir, "run");
  return {
    ...{ dir, engine, figures, tell, networkOfBuilds },
    cell: createComposeCell(engine),
    observers: createObservers(engine),
    async stop() {
      tell(`figures\n${figures.text()}`);
      // What a failed test left: their host ends with the engine, and loop devices would not.
      await engine.compose([...everyProfile, "down", "-v"]).catch(() => undefined);
      await engine.onHost(await takeAwayScript()).catch(() => undefined);
      await engine.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
};
