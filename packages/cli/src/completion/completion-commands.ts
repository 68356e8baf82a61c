import type { Command } from "../frame/command.ts";
import type { Context } from "../frame/context.ts";
import { type AskNames, completeLine } from "./complete-line.ts";
import { completionScripts } from "./completion-scripts.ts";

const shells = ["bash", "zsh", "fish"] as const;
const patienceMs = 1_500;
const most = 200;

/** A shell that waits is worse than one that offers nothing. */
const askController = ({ clients, settings }: Context): AskNames => {
  const { namespace } = settings;
  const call = { deadlineMs: patienceMs };
  const page = { pageSize: most, pageToken: "" };
  const asked: Record<Parameters<AskNames>[0], () => Promise<readonly string[]>> = {
    volume: async () =>
      (await clients.volumes.listVolumes({ filter: { namespace }, ...page }, call)).volumes.map(({ id }) => id),
    snapshot: async () =>
      (await clients.snapshots.listSnapshots({ filter: { namespace }, ...page }, call)).snapshots.map(({ id }) => id),
    workload: async () =>
      (await clients.claims.listClaims({ filter: { namespace }, ...page }, call)).claims.map(
        ({ workload }) => workload,
      ),
    node: async () => (await clients.nodes.listNodes(page, call)).nodes.map(({ name }) => name),
    plugin: async () => (await clients.plugins.listPlugins(page, call)).plugins.map(({ name }) => name),
    secret: async () =>
      (await clients.secrets.listSecrets({ namespace, ...page }, call)).secrets.map(({ name }) => name),
    file: async () => [],
  };
  return async (kind) => {
    try {
      return await asked[kind]();
    } catch {
      return [];
    }
  };
};

/** `commands`: all there are, these two left out. */
export const completionCommands = (commands: readonly Command[]): readonly Command[] => {
  const printScript: Command = {
    path: ["completion"],
    summary: "print the completion script of a shell",
    args: [{ name: "shell", help: shells.join(", "), completes: shells }],
    examples: [{ line: "source <(holdfast completion bash)", says: "for this shell, now" }],
    async run({ io }, input) {
      const shell = shells.find((name) => name === input.arg("shell"));
      io.stdout.write(shell === undefined ? "" : completionScripts[shell]);
    },
  };
  const complete: Command = {
    path: ["complete-line"],
    summary: "print what could come next; for the completion scripts",
    args: [{ name: "words", help: "the line so far, the last word perhaps empty", many: true, optional: true }],
    examples: [{ line: "holdfast complete-line -- volume st", says: "what could stand for st" }],
    async run(context, input) {
      const names = await completeLine([...commands, printScript], input.args("words"), askController(context));
      context.io.stdout.write(names.map((name) => `${name}\n`).join(""));
    },
  };
  return [printScript, complete];
};
