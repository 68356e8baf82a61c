/** csi-driver-host-path, built once; `npm test` begins that beside its other tests (scripts/test.mjs). */
import path from "node:path";
import { runToEnd } from "./run-go.ts";

const script = path.join(import.meta.dirname, "host-path-driver.sh");

const run = async (task: "missing" | "build"): Promise<string> => {
  const { code, stdout, output } = await runToEnd("bash", [script, task], 600_000);
  if (code !== 0) throw new Error(`${script} ${task}: ${output}`);
  return stdout.trim();
};

/** Whether it can run here; when not, `what` is told as skipped, with why. */
export const hasHostPath = async (what: string): Promise<boolean> => {
  const why = process.getuid?.() === 0 ? await run("missing") : "real mounts need root";
  if (why !== "") console.warn(`SKIPPED: ${what}: ${why}`);
  return why === "";
};

/** Where it is. It takes a minute of CPU the first time, in which all others go first. */
export const buildHostPath = (): Promise<string> => run("build");
