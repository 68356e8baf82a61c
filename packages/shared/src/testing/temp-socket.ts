import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

export interface TempSocket {
  readonly address: string;
  readonly path: string;
  readonly directory: string;
  remove(): Promise<void>;
}

/** A unix socket address in a directory of its own. */
export async function tempSocket(): Promise<TempSocket> {
  const directory = await mkdtemp(path.join(tmpdir(), "holdfast-"));
  const file = path.join(directory, "s.sock");
  return {
    address: `unix://${file}`,
    path: file,
    directory,
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}
