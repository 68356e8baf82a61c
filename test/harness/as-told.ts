/** What a person does who reads Explain: runs the commands that it prints, and answers what they ask. */
import { cliRun } from "../cli/cli-run.ts";
import { meantCommand } from "../support/meant-command.ts";
import type { Cluster } from "./cluster.ts";

const known: Readonly<Record<string, string>> = {
  "--evidence": "the host was looked at",
  "--reason": "test",
};

/** One printed line, up to the end of its clause. What a verb wants confirmed is confirmed with the words of its dry run. */
export const runAsTold = async (cluster: Cluster, line: string): Promise<string> => {
  const words = line.split(" ").slice(1);
  const evidence = Object.entries(known).flat();
  const command = await meantCommand([...words, ...evidence])
    .catch(() => meantCommand([...words, "--reason", "test"]))
    .catch(() => meantCommand(words));
  const asked = (command?.options ?? [])
    .filter(({ required }) => required === true)
    .flatMap(({ flags }) => {
      const flag = /--[a-z-]+/.exec(flags)?.[0] ?? "";
      return [flag, known[flag] ?? "said by a person"];
    });
  const run = (more: readonly string[]) => cliRun([...words, ...asked, ...more], { address: cluster.address });
  const first = await run([]);
  const [, confirm] = /--confirm (".*")/.exec(first.out) ?? [];
  const last = confirm === undefined ? first : await run(["--confirm", JSON.parse(confirm) as string]);
  return `${line} → ${last.code} ${(last.err || last.out).trim().split("\n")[0]}`;
};

/** The command lines in what Explain advises, in order. */
export const commandsIn = (advice: readonly string[]): readonly string[] =>
  advice.flatMap((text) => [...text.matchAll(/\bholdfast [^,;]+/g)].map(([line]) => line.trim()));
