/** A file that only this process may read, such as one of keys. It is read again when it has changed. */
import { readFile, stat } from "node:fs/promises";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";

export interface PrivateFile<T> {
  /** Rejects with what `unavailable` makes of the reason. */
  read(): Promise<T>;
}

export interface PrivateFileOptions<T> {
  readonly file: string | undefined;
  /** The setting that names it, and what is in it. */
  readonly setting: string;
  readonly holds: string;
  /** May throw what `unavailable` makes. */
  readonly parse: (file: string, text: string) => T;
  readonly unavailable: (message: string) => HoldfastError;
}

/** The lines that say something, with their numbers; the others are empty or begin with a `#`. */
export const linesOf = (text: string): readonly { readonly at: number; readonly said: string }[] =>
  text
    .split("\n")
    .map((raw, i) => ({ at: i + 1, said: raw.trim() }))
    .filter(({ said }) => said !== "" && !said.startsWith("#"));

export const createPrivateFile = <T>(options: PrivateFileOptions<T>): PrivateFile<T> => {
  const { file, setting, holds, parse, unavailable } = options;
  let known: { readonly stamp: string; readonly value: T } | undefined;
  return {
    async read() {
      if (file === undefined) throw unavailable(`${holds} is configured; set ${setting} to a key file`);
      try {
        const found = await stat(file, { bigint: true });
        if ((found.mode & 0o077n) !== 0n)
          throw unavailable(`key file ${file} can be used by others than its owner; run: chmod 600 ${file}`);
        const stamp = `${found.ino} ${found.size} ${found.mtimeNs}`;
        if (known?.stamp !== stamp) known = { stamp, value: parse(file, await readFile(file, "utf8")) };
        return known.value;
      } catch (error) {
        if (error instanceof HoldfastError) throw error;
        const code =
          typeof error === "object" && error !== null && "code" in error ? String(error.code) : "unknown error";
        throw unavailable(`key file ${file} cannot be read by this controller (${code})`);
      }
    },
  };
};
