/** What the state needs of a file system. Tests fail each of these calls, and end the process in the middle of them. */

/** `link`: symbolic. `other`: sockets, devices, pipes. */
export type EntryKind = "file" | "directory" | "link" | "other";

export interface Entry {
  readonly name: string;
  readonly kind: EntryKind;
}

export interface StateFiles {
  /** The directory, made with all above it if need be, as the kernel spells its path: no symbolic links. Refused when another user owns it. */
  openRoot(directory: string): Promise<string>;
  /** 0700: what volumes hold is for those they are published to, whatever modes it has. */
  makePrivate(directory: string): Promise<void>;
  /** One level, 0700. False when it is there already. */
  makeDirectory(directory: string): Promise<boolean>;
  list(directory: string): Promise<readonly Entry[]>;
  /** Follows no symbolic link; of a larger file the first `maxBytes + 1`. */
  read(file: string, maxBytes: number): Promise<Buffer>;
  /** The whole of a file, 0600, on the disk when it resolves; its name is not, until its directory is synced. When it fails, anything may be left. */
  write(file: string, data: Buffer): Promise<void>;
  /** An empty file, 0600; on the disk once its directory is synced. */
  mark(file: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** No error when it is not there. */
  unlink(file: string): Promise<void>;
  /** The names in it are on the disk. */
  syncDirectory(directory: string): Promise<void>;
}
