import { expect, onTestFinished, test } from "vitest";
import { createManualClock } from "../async/manual-clock.ts";
import { createMemoryLogger } from "../log/logger.ts";
import { tempDirectory } from "../testing/certified.ts";
import { checkAuthority, createIssuing, createRoot, issueLeaf, issuingTtlMs } from "./authority.ts";
import { writeCredentials } from "./credential-dir.ts";
import { isUnusable, readCredentialTexts } from "./credential-files.ts";
import { judgeCredentials } from "./judge-credentials.ts";
import { generateKey } from "./make-certificate.ts";
import { renewCertificate } from "./renew-certificate.ts";

const hour = 3_600_000;
const identity = { role: "node", name: "node-a" } as const;
const wanted = { roles: ["node"], name: "node-a" } as const;

const rig = async () => {
  const clock = createManualClock({ now: Math.floor(Date.now() / 1_000) * 1_000 });
  const root = await createRoot("td.test", clock.now());
  const authority = await checkAuthority(await createIssuing(root, issuingTtlMs, clock.now()), { now: clock.now() });
  const directory = tempDirectory();
  const issued = async (key: string) => ({
    chain: await issueLeaf(authority, { identity, key, ttlMs: 24 * hour, now: clock.now() }),
    roots: authority.roots,
  });
  const put = async () => {
    const key = generateKey();
    writeCredentials(directory, { ...(await issued(key)), key });
  };
  await put();
  const current = () => {
    const texts = readCredentialTexts(directory);
    const judged = isUnusable(texts) ? texts : judgeCredentials(texts, wanted);
    if (isUnusable(judged)) throw new Error(judged.wrong);
    return judged;
  };
  const log = createMemoryLogger();
  const asked: number[] = [];
  let refusal: Error | undefined;
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const begun = clock.now();
  renewCertificate({
    keeper: { current },
    directory,
    wanted,
    certify: async (key) => {
      asked.push(Math.round((clock.now() - begun) / hour));
      if (refusal !== undefined) throw refusal;
      return await issued(key);
    },
    clock,
    random: () => 0,
    log,
    signal: end.signal,
  }).catch(() => undefined);
  /** Signing takes turns of the event loop that no clock knows of; each attempt ends with a line. */
  const pass = async (hours: number) => {
    for (let i = 0; i < hours * 4; i += 1) {
      await clock.advance(hour / 4);
      while (asked.length > log.lines.length) await new Promise((done) => setImmediate(done));
    }
  };
  const refuse = (why: Error | undefined): void => {
    refusal = why;
  };
  return { current, asked, pass, put, log, refuse };
};

test("[RC1] after two thirds of its life there is another one, with another key", async () => {
  const { current, asked, pass } = await rig();
  const before = current();
  await pass(15);
  expect(asked).toEqual([]);
  await pass(2);
  expect(asked).toEqual([16]);
  expect(current().key).not.toBe(before.key);
  expect(current().notAfter).toBeGreaterThan(before.notAfter);
  await pass(14);
  expect(asked).toHaveLength(1);
});

test("[RC2] what is refused is asked for again until it succeeds, and the log says why", async () => {
  const { current, asked, pass, refuse, log } = await rig();
  const before = current();
  refuse(new Error("node node-a is QUARANTINED"));
  await pass(20);
  expect(asked.length).toBeGreaterThan(10);
  expect(current().leaf.serial).toBe(before.leaf.serial);
  expect(JSON.stringify(log.lines)).toContain("node node-a is QUARANTINED");
  refuse(undefined);
  await pass(1);
  expect(current().leaf.serial).not.toBe(before.leaf.serial);
});

test("[RC4] a certificate that another program has put there is not renewed again", async () => {
  const { asked, pass, put } = await rig();
  await pass(12);
  await put();
  await pass(12);
  expect(asked).toEqual([]);
});
