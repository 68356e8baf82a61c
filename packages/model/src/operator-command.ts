/** Lines of the command line (docs/cli.md) that controllers and agents both tell people to run. */
import { commandWord } from "./command-word.ts";

/** Gives one claim's volume back. */
export const releaseCommand = (
  namespace: string,
  claim: { readonly workload: string; readonly alias: string },
): string => ["holdfast claim release", commandWord(claim.workload), claim.alias, "--namespace", namespace].join(" ");

/** Takes from a node that is off all that it has. */
export const fenceCommand = (node: string): string => `holdfast node fence ${node}`;
