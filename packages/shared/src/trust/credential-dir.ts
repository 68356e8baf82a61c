/**
 * Writes a key, its certificate and the trust roots into a directory, as credential-files.ts reads them.
 *
 * CD1 The three files change at once: they are links through `.current`, which is replaced by one rename. A process that dies on the way
 *     leaves the three files of before.
 * CD2 The key is on disk before its certificate is.
 * CD3 Files that were there before, of another program, stay readable until they are replaced, and are replaced at once too.
 */
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import path from "node:path";
import { syncDirectory, writeDurableText } from "../durable-text.ts";
import { type CredentialTexts, credentialFiles } from "./credential-files.ts";

const current = ".current";
const generationPrefix = ".generation-";
/** In this order (CD2). */
const order = ["key", "certificate", "roots"] as const;
const modes = { key: 0o600, certificate: 0o644, roots: 0o644 } as const;

const isLink = (file: string): boolean => lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() === true;

const linkTo = (target: string, file: string): void => {
  rmSync(`${file}.new`, { force: true });
  symlinkSync(target, `${file}.new`);
  renameSync(`${file}.new`, file);
};

const newGeneration = (directory: string): string => {
  const name = `${generationPrefix}${randomBytes(8).toString("hex")}`;
  mkdirSync(path.join(directory, name), { mode: 0o755 });
  return name;
};

/** CD3 */
const adoptPlainFiles = (directory: string): void => {
  const plain = order.filter((what) => {
    const file = path.join(directory, credentialFiles[what]);
    return existsSync(file) && !isLink(file);
  });
  if (plain.length === 0) return;
  const generation = newGeneration(directory);
  for (const what of plain) {
    const copy = path.join(directory, generation, credentialFiles[what]);
    copyFileSync(path.join(directory, credentialFiles[what]), copy);
    chmodSync(copy, modes[what]);
  }
  linkTo(generation, path.join(directory, current));
  for (const what of plain)
    linkTo(path.join(current, credentialFiles[what]), path.join(directory, credentialFiles[what]));
};

/** On disk when it returns. */
export const writeCredentials = (directory: string, { chain, key, roots }: CredentialTexts): void => {
  const texts = { key, certificate: chain.join(""), roots: roots.join("") };
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  adoptPlainFiles(directory);
  const at = path.join(directory, current);
  const before = isLink(at) ? readlinkSync(at) : undefined;
  const generation = newGeneration(directory);
  for (const what of order)
    writeDurableText(path.join(directory, generation, credentialFiles[what]), texts[what], modes[what]);
  for (const what of order) {
    const file = path.join(directory, credentialFiles[what]);
    if (!isLink(file)) linkTo(path.join(current, credentialFiles[what]), file);
  }
  linkTo(generation, at); // CD1
  syncDirectory(directory);
  if (before?.startsWith(generationPrefix) === true) rmSync(path.join(directory, before), { recursive: true });
};

/** Whether there is anything that a new certificate would replace. */
export const hasCredentials = (directory: string): boolean =>
  existsSync(directory) && readdirSync(directory).some((name) => Object.values<string>(credentialFiles).includes(name));
