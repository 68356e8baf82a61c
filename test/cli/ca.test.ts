/** The authority of an installation by the command line: directories, names, and each refusal. */
import { X509Certificate } from "node:crypto";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { readAuthority } from "@holdfast/shared/trust/authority";
import { isUnusable, readCredentialTexts } from "@holdfast/shared/trust/credential-files";
import { readLeaf } from "@holdfast/shared/trust/leaf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { trustedController } from "../trust/trusted-controller.ts";
import { cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(path.join(tmpdir(), "hf-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

const run = (args: string) => cliRun(args.split(" "));
const golden = createGolden((args, options) => cliRun(args.replaceAll("DIR", dir).split(" "), options));
/** What is random: pins and serials. */
const words = [
  [/sha256:[0-9a-f]{64}/g, "sha256:<pin>"],
  [/\b[0-9A-F]{32}\b/g, "<serial>"],
  [/\b[0-9a-f]{32}\b/g, "<token>"],
] as const;
const at = (name: string): string => path.join(dir, name);
const of = (name: string) => {
  const texts = readCredentialTexts(at(name));
  if (isUnusable(texts)) throw new Error(texts.wrong);
  return { leaf: readLeaf(new X509Certificate(texts.chain[0] ?? "").raw), key: texts.key, roots: texts.roots };
};
const nomad = { id: { trustDomain: "prod.example", role: "scheduler", name: "nomad" } };

test("ca init makes a root and what issues, once", async () => {
  const made = await run(`ca init --trust-domain prod.example --dir ${dir}/ca`);
  expect(made.code, made.err).toBe(0);
  expect((await readAuthority(at("ca/issuing"), { now: Date.now() })).trustDomain).toBe("prod.example");
  await golden("ca-init-again", "ca init --trust-domain prod.example --dir DIR/ca", 4);
  await golden("ca-init-bad", "ca init --trust-domain Prod --dir DIR/other", 4);
});

test("ca issue writes a certificate with the name that was asked for", async () => {
  await golden("ca-issue", "ca issue scheduler/nomad --dir DIR/ca --out DIR/nomad", 0, {}, words);
  expect(of("nomad").leaf).toMatchObject(nomad);
  // A controller has the issuing part alone.
  const issued = await run(`ca issue monitor --dir ${dir}/ca/issuing --out ${dir}/monitor --ttl 8h`);
  expect(issued.code, issued.err).toBe(0);
});

test("ca issue refuses a name that is none, and says which there are", async () => {
  await golden("ca-issue-bad-role", "ca issue local/x --dir DIR/ca --out DIR/x", 2);
  await golden("ca-issue-bad-node", "ca issue node/A --dir DIR/ca --out DIR/x", 2);
  await golden("ca-issue-short", "ca issue node/a --dir DIR/ca --out DIR/x --ttl 5s", 2);
  await golden("ca-issue-none", "ca issue node/a --dir DIR/none --out DIR/x", 4);
  expect(existsSync(at("x"))).toBe(false);
});

test("--unless-valid keeps what is valid for so long, of that name and that authority", async () => {
  const keyAfter = async (args: string): Promise<string> => {
    const done = await run(args);
    expect([args, done.code, done.err]).toEqual([args, 0, ""]);
    return of(args.includes("--out") ? "nomad" : "ca/issuing").key;
  };
  const issue = (name: string, ca: string) => `ca issue ${name} --dir ${dir}/${ca} --out ${dir}/nomad --unless-valid`;
  const before = { leaf: of("nomad").key, issuing: of("ca/issuing").key };
  expect(await keyAfter(`${issue("scheduler/nomad", "ca")} 23h`)).toBe(before.leaf);
  expect(await keyAfter(`ca renew --dir ${dir}/ca --unless-valid 60d`)).toBe(before.issuing);
  expect(await keyAfter(`ca renew --dir ${dir}/ca --unless-valid 91d`)).not.toBe(before.issuing);
  expect((await run(`ca init --trust-domain prod.example --dir ${dir}/second`)).code).toBe(0);
  const late = await keyAfter(`${issue("scheduler/nomad", "ca")} 25h`);
  const renamed = await keyAfter(`${issue("scheduler/other", "ca")} 23h`);
  const foreign = await keyAfter(`${issue("scheduler/other", "second")} 23h`);
  const back = await keyAfter(`${issue("scheduler/nomad", "ca")} 23h`);
  expect(new Set([before.leaf, late, renamed, foreign, back]).size).toBe(5);
});

test("ca renew: a certificate keeps its name and gets another key, an authority leads to the same root", async () => {
  const [leaf, issuing] = [of("nomad"), of("ca/issuing")];
  await golden("ca-renew-leaf", "ca renew --dir DIR/ca --out DIR/nomad", 0, {}, words);
  expect(of("nomad").leaf).toMatchObject(nomad);
  expect(of("nomad").key).not.toBe(leaf.key);
  await golden("ca-renew", "ca renew --dir DIR/ca", 0, {}, words);
  expect(of("ca/issuing").key).not.toBe(issuing.key);
  expect(of("ca/issuing").roots).toEqual(issuing.roots);
  // The root is offline.
  rmSync(path.join(dir, "ca/root"), { recursive: true });
  await golden("ca-renew-no-root", "ca renew --dir DIR/ca", 4);
});

test("a disk that refuses is told with the directory", async () => {
  const { code, err } = await run(`ca issue node/a --dir ${dir}/ca --out ${dir}/nomad/ca.crt/x`);
  expect([code, err]).toEqual([4, expect.stringContaining("nomad/ca.crt/x: ENOTDIR")]);
});

test("node token, agent enrol, ca revoke and ca revoked, at a controller with an authority", async () => {
  const { app, at, enrolArgs } = await trustedController(path.join(dir, "trusted"));
  try {
    const options = { address: app.address(), env: { HOLDFAST_CERTS: at("ada") } };
    const asked = (name: string, args: string, code = 0) => golden(name, args, code, options, words);
    await asked("node-token", "node token node-a");
    await asked("node-token-long", "node token node-a --ttl 1h", 2);
    const { args } = await enrolArgs("node-a", "a");
    const enrolled = await cliRun(args);
    expect([enrolled.code, enrolled.out]).toEqual([0, expect.stringContaining("node-a")]);
    const used = args.join(" ");
    const known = [...words, [app.agentAddress(), "<agents>"]] as const;
    await golden("agent-enrol-used", used, 4, {}, known);
    await golden("agent-enrol-pin", used.replace(/--pin \S+/, "--pin 12"), 2, {}, known);
    await asked("ca-revoke", "ca revoke node/node-a --reason stolen");
    await asked("ca-revoke-bad", "ca revoke ada --reason stolen", 2);
    await asked("ca-revoked", "ca revoked");
  } finally {
    await app.stop();
  }
});
