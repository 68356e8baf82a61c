/** Starts the process that lets out what it is told to, and keeps all that was seen of it. */
import { mkdir, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { startProcess } from "../harness/managed-process.ts";
import { until } from "../harness/until.ts";
import type { Place } from "./forms.ts";
import type { Plan } from "./planter.ts";
import { shownByProcess } from "./processes.ts";

export const planterSinks = ["logs", "metrics", "argv", "environ", "heap snapshot", "core"] as const;
export type PlanterSink = (typeof planterSinks)[number];

export interface Planting extends Plan {
  readonly argv: readonly string[];
  readonly environ: readonly string[];
}

const main = path.join(import.meta.dirname, "planter.ts");

const endsWell = async (file: string): Promise<boolean> => {
  const opened = await open(file);
  try {
    const { size } = await opened.stat();
    const { buffer } = await opened.read(Buffer.alloc(8), 0, 8, Math.max(0, size - 8));
    return buffer.toString("latin1").includes("]}");
  } finally {
    await opened.close();
  }
};

/** Its texts, which stand at its end in JSON. */
const stringsOf = async (file: string): Promise<Buffer | undefined> => {
  if (!(await endsWell(file))) return undefined;
  const text = await readFile(file, "utf8");
  const { strings } = JSON.parse(`{${text.slice(text.lastIndexOf('"strings":['))}`) as { strings: readonly string[] };
  return Buffer.from(strings.join("\n"));
};

const fileIn = async (dir: string, start: string): Promise<string | undefined> =>
  (await readdir(dir)).find((name) => name.startsWith(start));

/** What a service refuses, this process was told: to write its heap at a signal, and a core at its end. */
export const seenOfPlanter = async (
  dir: string,
  { argv, environ, ...plan }: Planting,
): Promise<Readonly<Record<PlanterSink, Place>>> => {
  await mkdir(dir, { recursive: true });
  const file = path.join(dir, "plan.json");
  await writeFile(file, JSON.stringify(plan), { mode: 0o600 });
  const script = `cd "$1" && shift && ulimit -c unlimited && exec "$@"`;
  const node = [process.execPath, "--heapsnapshot-signal=SIGUSR2", main];
  const planter = startProcess({
    name: "planter",
    command: ["/bin/sh", "-c", script, "sh", dir, ...node, ...argv],
    env: { PLANTER_PLAN: file, ...Object.fromEntries(environ.map((text, at) => [`PLANTED_${at}`, text])) },
  });
  try {
    const line = await planter.line((l) => l["message"] === "admin listening", "its admin address");
    const metrics = await (await fetch(`http://${String(line["address"])}/metrics`)).text();
    const shown = await shownByProcess(planter.pid);
    await rm(file);
    planter.signal("SIGUSR2");
    const heap = await until("the heap snapshot", async () => {
      const name = await fileIn(dir, "Heap.");
      return name === undefined ? undefined : await stringsOf(path.join(dir, name));
    });
    await planter.kill("SIGABRT");
    const core = await fileIn(dir, "core");
    return {
      logs: planter.output(),
      metrics,
      ...shown,
      "heap snapshot": heap,
      core: core === undefined ? "" : await readFile(path.join(dir, core)),
    };
  } finally {
    await planter.kill("SIGKILL");
  }
};
