import { writeFile } from "node:fs/promises";
import path from "node:path";
import type { Cluster } from "../test/harness/cluster.ts";
import { namespace, plugin } from "./scheduler.ts";

const spec = `# A volume as \`holdfast volume create\` reads it.
id: mine
plugin: ${plugin}
capacity: { required_bytes: 64MiB }
capabilities:
  - { attachment_mode: file-system, access_mode: single-node-writer }
`;

/** Says how to go on by hand: commands to be copied, from the directory that the demo was started in. */
export const keepRunning = async ({ address, dir }: Cluster, say: (text: string) => void): Promise<void> => {
  const file = path.join(dir, "mine.yaml");
  await writeFile(file, spec);
  const bin = path.relative(process.cwd(), path.resolve(import.meta.dirname, "../packages/cli/bin/holdfast.mjs"));
  const holdfast = `node ${bin} --address ${address} -n ${namespace}`;
  const commands = [
    `volume create ${file}`,
    "volume expand mine 128MiB",
    "claim create web-3 mine --node node-a",
    "volume explain mine",
    "snapshot create mine mine-now",
    "plugin list",
    "claim release web-3",
    "snapshot delete mine-now",
    "volume delete mine",
  ];
  say(`\nThe services go on, the controller at ${address} (gRPC, with reflection). Some of what they can be asked:\n`);
  for (const command of commands) say(`  ${holdfast} ${command}`);
  say(`\nEverything lives in ${dir}. Ctrl-C ends it and cleans up.`);
};
