/**
 * The guides as a newcomer follows them: the blocks marked `walk` of the scheduler's guide, the plugin guide, operations, restore, and of
 * total loss or a dead node (of both, and of a failover, with `npm run test:full`), in this order, in one bash, with a Node on the path that
 * is too old; and the output that the pages show. Blocks that are not marked (the clone, production settings) are not run: their links and
 * command lines are looked at as all others are.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { configSchema as controllerSchema } from "@holdfast/controller/config";
import { aclCommand, controllerRules, migratorRules } from "@holdfast/controller/store/redis/acl";
import { configSchema as agentSchema } from "@holdfast/node-agent/config";
import { parseStaticPlugins } from "@holdfast/node-agent/plugins/host/static-plugins";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { loadConfig } from "@holdfast/shared/config/config";
import { afterAll, describe, expect, test } from "vitest";
import { detachLoopsUnder } from "../harness/loop-files.ts";
import { createSeededRandom, seedOfRun } from "../local-driver/seeded-random.ts";
import { full } from "../support/full.ts";
import { unmountUnder } from "./clean-up.ts";
import { blocksOf, missingLine, outputOf, sessionOf, stepsOf } from "./guide-walk.ts";

const repo = path.resolve(import.meta.dirname, "../..");
const page = (name: string): Promise<string> => readFile(path.join(repo, "docs", name), "utf8");
/** What may befall the cell of the pages before: `npm test` walks one of them, by seed. */
const losses = ["total-loss.md", "dead-node.md"];
const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: the guides' walk mounts volumes and needs root");

let dir: string | undefined;
let endSession: (() => Promise<void>) | undefined;
afterAll(async () => {
  await endSession?.();
  if (dir === undefined) return;
  await unmountUnder(dir);
  await detachLoopsUnder(dir);
  await rm(dir, { recursive: true, force: true });
});

/** The path of somebody who has just cloned: what the repository brings is not on it, and its Node runs no TypeScript. */
const newcomersPath = async (folder: string): Promise<string> => {
  const bin = path.join(repo, "node_modules/.bin");
  const others = (process.env["PATH"] ?? "").split(path.delimiter).filter((each) => path.resolve(each) !== bin);
  if (!existsSync(path.join(bin, "node"))) return others.join(path.delimiter);
  const old = path.join(folder, "node");
  await writeFile(old, "#!/bin/sh\necho 'this Node is too old to run TypeScript'\nexit 9\n");
  await chmod(old, 0o755);
  return [folder, ...others].join(path.delimiter);
};

/** The last lines of what the services logged, unless the walk came to its end and removed them. */
const logsOf = async (folder: string): Promise<string> => {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const logs = names.filter((name) => name.endsWith(".log"));
  const texts = await Promise.all(logs.map((name) => readFile(path.join(folder, name), "utf8").catch(() => "")));
  return logs.map((name, nth) => `${name}:\n${texts[nth]?.split("\n").slice(-15).join("\n")}`).join("\n");
};

test.skipIf(!root)(
  "the walk of the guides: every block, and what is shown of its output",
  { timeout: 600_000 },
  async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hfg-"));
    const cell = ["scheduler-guide.md", "plugin-guide.md", "operations.md", "restore.md"];
    const seed = seedOfRun();
    const after = full ? [...losses, "failover.md"] : [createSeededRandom(seed).pick(losses)];
    const names = [...cell, ...after];
    console.log(`HOLDFAST_SEED=${seed}: ${names.join(", ")}`);
    const all = (await Promise.all(names.map(async (name) => stepsOf(name, await page(name))))).flat();
    const steps = [...all.filter(({ last }) => !last), ...all.filter(({ last }) => last)];
    const session = path.join(dir, "session.sh");
    // The tests may run in a container, whose own machine id is no host's.
    const ofThisHost = `$1HOLDFAST_MACHINE_ID_FILE=${machineIdFile()} HOLDFAST_NODE=`;
    const text = sessionOf(steps).replaceAll(/^( *)HOLDFAST_NODE=(?=\S+ )/gm, ofThisHost);
    // The store of the page before, where that is not walked.
    await writeFile(session, names.includes("total-loss.md") ? text : text.replaceAll("rebuilt.db", "restored.db"));

    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
    const shell = spawn("bash", [session], {
      cwd: repo,
      env: { ...Object.fromEntries(inherited), PATH: await newcomersPath(dir), TMPDIR: dir },
      stdio: ["ignore", "pipe", "ignore"],
      // A process group of its own, so that all that it started can be ended.
      detached: true,
    });
    const ended = once(shell, "exit");
    endSession = async () => {
      const group = shell.pid;
      try {
        if (group !== undefined) process.kill(-group, "SIGKILL");
      } catch {
        // Nobody is left of it.
      }
      await ended;
    };
    let output = "";
    shell.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString("utf8");
    });
    // A loop of the page that never ends is told with its output, before the test's own limit would hide that.
    const patience = setTimeout(() => void endSession?.(), 500_000);
    const [code] = (await ended) as [number | null];
    clearTimeout(patience);

    const told = `${output.slice(-6_000)}\n(the session ended with ${code})\n${await logsOf(dir)}`;
    for (const [nth, step] of steps.entries()) {
      const printed = outputOf(output, nth);
      const where = `docs/${step.page}:${step.line}`;
      if (printed === undefined) throw new Error(`${where} failed:\n${step.script}\n${told}`);
      expect(
        missingLine(step.shown, printed),
        `${where} shows a line that was not printed:\n${printed}`,
      ).toBeUndefined();
    }
    expect(code, told).toBe(0);
    expect(steps.length).toBeGreaterThan(10);
    const table = await readFile("/proc/self/mountinfo", "utf8");
    expect(table.split("\n").filter((line) => line.includes(` ${dir}/`))).toEqual([]);
  },
);

describe("what operations says", () => {
  test("the rules of both Redis users are those that the store's tests run with", async () => {
    const text = await page("operations.md");
    expect(text).toContain(aclCommand("holdfast", controllerRules("default")));
    expect(text).toContain(aclCommand("holdfast-migrate", migratorRules("default")));
  });

  test("the settings of the units are settings, and valid", async () => {
    const [block] = blocksOf(await page("operations.md")).filter(({ text }) => text.startsWith("# /etc/holdfast/"));
    const files = (block?.text ?? "").split(/^# \/etc\/holdfast\//m).slice(1);
    expect(files.map((file) => file.split("\n")[0])).toEqual(["controller.env", "node-agent.env"]);
    for (const file of files) {
      const [name, ...lines] = file.split("\n").filter((line) => line !== "");
      const settings = Object.fromEntries(lines.map((line) => /^([A-Z_]+)=(.*)$/.exec(line)?.slice(1) ?? [line, ""]));
      expect(() => loadConfig(name === "controller.env" ? controllerSchema : agentSchema, settings)).not.toThrow();
    }
  });
});

test("the plugins.json that the pages show is one that the agent reads", async () => {
  const shown = (await Promise.all(["plugin-guide.md", "plugin-host.md"].map(page))).flatMap((text) =>
    blocksOf(text).filter(({ language }) => language === "json"),
  );
  expect(shown.length).toBe(2);
  for (const { text } of shown) expect(parseStaticPlugins(text, "/run/holdfast/node-plugins")).toHaveLength(1);
});
