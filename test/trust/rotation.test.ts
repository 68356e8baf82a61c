/**
 * Authorities and leaves are replaced again and again while callers call, over new connections and over old ones, and not one call fails.
 * The order is the one of docs/security.md: roots first, then leaves, then the old roots go. Within each step files are written as badly
 * as other programs write them: halves, the certificate before its key, links that are swapped.
 */
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { waitFor } from "@holdfast/shared/async/signals";
import { createGrpcChannel, createGrpcClient } from "@holdfast/shared/grpc/client";
import { createGrpcServer } from "@holdfast/shared/grpc/server";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { tempDirectory } from "@holdfast/shared/testing/certified";
import { EchoDefinition } from "@holdfast/shared/testing/echo-service";
import { createTestAuthority, type TestAuthority, type TestLeaf } from "@holdfast/shared/testing/test-authority";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import { credentialFiles } from "@holdfast/shared/trust/credential-files";
import { certifiedRoles } from "@holdfast/shared/trust/spiffe-id";
import { expect, onTestFinished, test } from "vitest";
import { sample } from "../support/full.ts";

const rotations = sample(10, 2);
const callsPerSecond = sample(200, 60);
const claimsPerSecond = sample(20, 6);

const mostAtOnce = 32;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

interface Files {
  readonly chain: TestLeaf;
  readonly roots: readonly string[];
}

type WriteFiles = (files: Files) => Promise<void>;

/** One after the other, each in two halves, the certificate first. */
const inHalves =
  (directory: string): WriteFiles =>
  async ({ chain, roots }) => {
    const texts = { certificate: chain.certificate, key: chain.key, roots: roots.join("") };
    for (const [name, text] of Object.entries(texts)) {
      const file = path.join(directory, credentialFiles[name as keyof typeof texts]);
      writeFileSync(file, text.slice(0, text.length / 2));
      await pause(20);
      writeFileSync(file, text);
      await pause(50);
    }
  };

/** As a cluster mounts a secret: all at once, and what was there before is gone. */
const byLinks = (directory: string): WriteFiles => {
  let turn = 0;
  return async ({ chain, roots }) => {
    turn += 1;
    const target = path.join(directory, `..${turn}`);
    mkdirSync(target);
    writeFileSync(path.join(target, credentialFiles.certificate), chain.certificate);
    writeFileSync(path.join(target, credentialFiles.key), chain.key);
    writeFileSync(path.join(target, credentialFiles.roots), roots.join(""));
    symlinkSync(`..${turn}`, path.join(directory, "..next"));
    renameSync(path.join(directory, "..next"), path.join(directory, "..data"));
    if (turn === 1)
      for (const file of Object.values(credentialFiles))
        symlinkSync(path.join("..data", file), path.join(directory, file));
    rmSync(path.join(directory, `..${turn - 1}`), { recursive: true, force: true });
  };
};

const party = async (name: string, way: (directory: string) => WriteFiles, authority: TestAuthority) => {
  const directory = tempDirectory();
  const write = way(directory);
  const wish = { path: `csi/${name}` };
  let now: Files = { chain: await authority.issue(wish), roots: [authority.root] };
  await write(now);
  const log = createMemoryLogger();
  const keeper = createCertificateKeeper({ path: directory, setting: "TEST", wanted: { roles: certifiedRoles }, log });
  onTestFinished(keeper.stop);
  const taken = () => ({ roots: keeper.current().roots, key: keeper.current().key.trim() });
  const wanted = () => ({ roots: now.roots.join(""), key: now.chain.key.trim() });
  return {
    keeper,
    errors: () => log.lines.filter(({ level }) => level === "error").map(({ fields }) => fields["why"]),
    async trust(roots: readonly string[]) {
      now = { ...now, roots };
      await write(now);
      await expect.poll(taken).toEqual(wanted());
    },
    async bear(by: TestAuthority) {
      now = { ...now, chain: await by.issue(wish) };
      await write(now);
      await expect.poll(taken).toEqual(wanted());
    },
  };
};

test(`no call fails while authorities and leaves are replaced ${rotations} times`, async () => {
  let authority = await createTestAuthority("test.example", "authority 0");
  const controller = await party("controller/c1", inHalves, authority);
  const node = await party("node/n1", byLinks, authority);
  const scheduler = await party("scheduler/s", inHalves, authority);
  const everybody = [controller, node, scheduler];

  const log = createMemoryLogger();
  const server = createGrpcServer({ log, certificates: { keeper: controller.keeper } });
  server.add(EchoDefinition, {
    say: async (request, { identity }) => ({ text: `${request.text} ${identity.role}` }),
    async *watch(request, { signal }) {
      yield request;
      if (request.text === "until the end") await waitFor(new Promise<never>(() => undefined), signal);
      await pause(100);
      yield request;
    },
  });
  const address = await server.listen("127.0.0.1:0");
  onTestFinished(() => server.stop({ graceMs: 0 }));

  const credentials = [node, scheduler].map(({ keeper }) => createChannelCredentials(keeper));
  const dial = (at: number) => {
    const channel = createGrpcChannel(address, { ownConnection: true, credentials: credentials[at % 2] });
    return { channel, echo: createGrpcClient(EchoDefinition, channel, { log: createMemoryLogger() }) };
  };
  const failures: string[] = [];
  let step = "";
  const done = { calls: 0, claims: 0, connections: 0 };
  const note = (what: string) => (error: unknown) =>
    void failures.push(`${Math.round(performance.now())} ${step}: ${what}: ${String(error)}`);

  const standing = [dial(0), dial(1)];
  const gone = new AbortController();
  const watching = standing.map(async ({ echo }) => {
    try {
      for await (const _ of echo.watch({ text: "until the end" }, { signal: gone.signal }));
    } catch (error) {
      if (!gone.signal.aborted) note("watch")(error);
    }
  });

  const call = async (at: number): Promise<void> => {
    const kept = standing[at % 2];
    // Two calls of eight go over connections of their own, the others over one that is older than every rotation.
    const own = at % 8 < 2 || kept === undefined ? dial(at) : undefined;
    if (own !== undefined) done.connections += 1;
    const { text } = await (own ?? kept ?? dial(at)).echo.say({ text: "x" });
    expect(text).toBe(at % 2 === 0 ? "x node" : "x scheduler");
    own?.channel.close();
    done.calls += 1;
  };
  const claim = async (at: number): Promise<void> => {
    const own = dial(at);
    done.connections += 1;
    let heard = 0;
    for await (const _ of own.echo.watch({ text: "claim" })) heard += 1;
    expect(heard).toBe(2);
    own.channel.close();
    done.claims += 1;
  };
  const running = new Set<Promise<void>>();
  const every = (perSecond: number, what: string, act: (at: number) => Promise<void>) => {
    const begun = performance.now();
    let at = 0;
    const timer = setInterval(() => {
      // A busy machine makes up for the turns that it missed, and is not given more than it can do.
      for (; at < ((performance.now() - begun) * perSecond) / 1000 && running.size < mostAtOnce; at += 1) {
        const one: Promise<void> = act(at)
          .catch(note(what))
          .finally(() => running.delete(one));
        running.add(one);
      }
    }, 1000 / perSecond);
    return () => clearInterval(timer);
  };
  const stops = [every(callsPerSecond, "call", call), every(claimsPerSecond, "claim", claim)];

  for (let turn = 1; turn <= rotations; turn += 1) {
    const next = await createTestAuthority("test.example", `authority ${turn}`);
    step = `trust both ${turn}`;
    await Promise.all(everybody.map(({ trust }) => trust([authority.root, next.root])));
    for (const { bear } of everybody) {
      step = `bear the new one ${turn}`;
      await bear(next);
    }
    step = `trust the new one ${turn}`;
    await Promise.all(everybody.map(({ trust }) => trust([next.root])));
    authority = next;
  }

  for (const stop of stops) stop();
  await Promise.all(running);
  gone.abort();
  await Promise.all(watching);
  for (const { channel } of standing) channel.close();
  expect(failures).toEqual([]);
  expect(log.lines.filter(({ level }) => level !== "debug" && level !== "info")).toEqual([]);
  expect(everybody.flatMap(({ errors }) => errors())).toEqual([]);
  expect(done.calls).toBeGreaterThan(rotations * 20);
  expect(done.claims).toBeGreaterThan(rotations * 2);
  console.log(JSON.stringify({ rotations, ...done }));
});
