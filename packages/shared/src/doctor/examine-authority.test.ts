import { chmodSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { tempDirectory } from "../testing/certified.ts";
import { writeCredentials } from "../testing/test-authority.ts";
import { createIssuing, createRoot, issueLeaf } from "../trust/authority.ts";
import { type CredentialTexts, credentialFiles } from "../trust/credential-files.ts";
import { generateKey } from "../trust/make-certificate.ts";
import { examineAuthority } from "./examine-authority.ts";

const day = 24 * 3_600_000;
const begun = Date.now();
const rootMs = 3_650 * day;

const placed = (texts: CredentialTexts): string => {
  const directory = tempDirectory();
  writeCredentials(directory, { certificate: texts.chain.join(""), key: texts.key }, texts.roots);
  chmodSync(path.join(directory, credentialFiles.key), 0o600);
  return directory;
};

const made = async (domain = "td.test", at = begun) => {
  const root = await createRoot(domain, begun);
  const issuing = await createIssuing(root, 90 * day, at);
  const authority = { ...issuing, trustDomain: domain, notAfter: begun + rootMs, pin: "", root: root.roots[0] ?? "" };
  const key = generateKey();
  const identity = { role: "controller", name: "c-1" } as const;
  const chain = await issueLeaf(authority, { identity, key, ttlMs: day, now: at });
  return { root, issuing, at: placed(issuing), tlsDir: placed({ chain, key, roots: root.roots }) };
};

const found = async (at: string | undefined, tlsDir: string | undefined, now = begun) =>
  (await examineAuthority({ at, tlsDir, now })).map(({ id, level }) => `${level} ${id}`);

test("nothing is found where there is none, and nothing wrong with a good one", async () => {
  const { at, tlsDir } = await made();
  expect(await found(undefined, tlsDir)).toEqual([]);
  expect(await found(at, tlsDir)).toEqual(["ok authority"]);
  // A fifth of its time is left.
  expect(await found(at, tlsDir, begun + 71 * day)).toEqual(["ok authority"]);
});

test("one that is about to end, or that has ended, or has not begun", async () => {
  const { at, tlsDir } = await made();
  expect(await found(at, tlsDir, begun + 73 * day)).toEqual(["warning authority-expiring"]);
  expect(await found(at, tlsDir, begun + 91 * day)).toEqual(["fault authority-expired"]);
  expect(await found(at, tlsDir, begun - day)).toEqual(["fault authority-expired"]);
  const [finding] = await examineAuthority({ at, tlsDir, now: begun + 73 * day });
  expect(finding).toMatchObject({ subject: at, cure: expect.stringContaining("holdfast ca renew") });
});

test("a root that ends within the time of an authority", async () => {
  const late = await made("td.test", begun + rootMs - 80 * day);
  expect(await found(late.at, late.tlsDir, begun + rootMs - 80 * day)).toEqual(["warning authority-root-expiring"]);
});

test("what is none, or of another trust domain, or beside no certificate", async () => {
  const { root, at, tlsDir } = await made();
  const other = await made("other.test");
  expect(await found(placed(root), tlsDir)).toEqual(["fault authority-unusable"]);
  expect(await found(tlsDir, tlsDir)).toEqual(["fault authority-unusable"]);
  expect(await found(other.at, tlsDir)).toEqual(["fault authority-unusable"]);
  expect(await found("/nowhere", tlsDir)).toEqual(["fault authority-unusable"]);
  expect(await found(at, undefined)).toEqual(["fault authority-unusable"]);
});

test("a key that everybody on the host may read", async () => {
  const { at, tlsDir } = await made();
  chmodSync(path.join(at, credentialFiles.key), 0o644);
  expect(await found(at, tlsDir)).toEqual(["fault authority-key-open"]);
});
