/** Commands by their words, without their code: a run loads the code of the command that was named and of no other. */
import type { Command } from "./command.ts";

export interface CommandSource {
  /** Undefined: the commands stand alone, as `holdfast events`. */
  readonly group: string | undefined;
  /** The last words of their paths. */
  readonly words: readonly string[];
  /** These commands, and perhaps others of the same file. */
  load(): Promise<readonly Command[]>;
}

const pathText = (group: string | undefined, word: string): string => (group === undefined ? word : `${group} ${word}`);

/** In the order of the words. */
export const loadCommands = async (sources: readonly CommandSource[]): Promise<readonly Command[]> => {
  const loaded = await Promise.all(
    sources.map(async ({ group, words, load }) => {
      const commands = await load();
      return words.map((word) => {
        const found = commands.find(({ path }) => path.join(" ") === pathText(group, word));
        if (found === undefined)
          throw new Error(`the table names a command ${pathText(group, word)}, which is not there`);
        return found;
      });
    }),
  );
  return loaded.flat();
};
