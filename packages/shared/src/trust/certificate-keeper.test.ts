import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createManualClock, type ManualClock } from "../async/manual-clock.ts";
import { createMemoryLogger } from "../log/logger.ts";
import { createMetrics } from "../metrics.ts";
import { tempDirectory } from "../testing/certified.ts";
import {
  createTestAuthority,
  type LeafWish,
  type TestAuthority,
  type TestLeaf,
  writeCredentials,
} from "../testing/test-authority.ts";
import { createCertificateKeeper } from "./certificate-keeper.ts";
import { credentialFiles } from "./credential-files.ts";

let authority: TestAuthority;
let other: TestAuthority;
beforeAll(async () => {
  authority = await createTestAuthority();
  other = await createTestAuthority("test.example", "the next one");
});

/** As the keeper looks: on the clock, and again at what has changed. */
const lookMs = 5_000;
const settleMs = 200;
const hourMs = 3_600_000;
const n1: LeafWish = { path: "csi/node/n1" };

function keeping(at: string, name = "n1", clock?: ManualClock) {
  const log = createMemoryLogger();
  const metrics = createMetrics();
  const keeper = createCertificateKeeper({
    path: at,
    setting: "HOLDFAST_TLS_DIR",
    wanted: { roles: ["node"], name },
    log,
    metrics,
    ...(clock === undefined ? {} : { clock }),
  });
  onTestFinished(keeper.stop);
  const changes: string[] = [];
  keeper.onChange(() => changes.push(keeper.current().leaf.serial));
  const told = () => log.lines.filter(({ level }) => level === "error").map(({ fields }) => String(fields["why"]));
  return { keeper, changes, told, metrics, serial: () => keeper.current().leaf.serial };
}

async function placed(wish: LeafWish = n1, roots = [authority.root], by = authority) {
  const directory = tempDirectory();
  const leaf = await by.issue(wish);
  writeCredentials(directory, leaf, roots);
  return { directory, leaf };
}

const write = (directory: string, file: keyof typeof credentialFiles, text: string) =>
  writeFileSync(path.join(directory, credentialFiles[file]), text);
const settled = (ms = 700) => new Promise((resolve) => setTimeout(resolve, ms));

describe("the files of a certificate at the start", () => {
  test("are read at once, from a directory and from one file alike", async () => {
    const { directory, leaf } = await placed({ ...n1, serial: "00aa" });
    expect(keeping(directory).serial()).toBe("AA");
    const bundle = path.join(tempDirectory(), "bundle.pem");
    const below = await authority.intermediate();
    const deep = await below.issue({ ...n1, serial: "00bb" });
    for (const text of [
      leaf.certificate + leaf.key + authority.root,
      `a word before it\n${authority.root}`.replace(authority.root, leaf.certificate) + authority.root + leaf.key,
    ]) {
      writeFileSync(bundle, text);
      expect(keeping(bundle).serial()).toBe("AA");
    }
    writeFileSync(bundle, deep.certificate + deep.key + authority.root);
    expect(
      keeping(bundle)
        .keeper.current()
        .chain.match(/BEGIN CERTIFICATE/g),
    ).toHaveLength(2);
  });

  const broken: readonly (readonly [string, (directory: string, leaf: TestLeaf) => Promise<void> | void, RegExp])[] = [
    ["no directory", (at) => rmSync(at, { recursive: true }), /ENOENT/],
    ["no key", (at) => rmSync(path.join(at, credentialFiles.key)), /tls\.key/],
    ["an empty certificate", (at) => write(at, "certificate", ""), /tls\.crt holds no certificate/],
    [
      "a certificate cut in its middle",
      (at, leaf) => write(at, "certificate", leaf.certificate.slice(0, 300)),
      /cut off/,
    ],
    ["two keys", (at, leaf) => write(at, "key", leaf.key + leaf.key), /2 private keys/],
    ["no root", (at) => write(at, "roots", "\n"), /ca\.crt holds no certificate/],
    ["another key", async (at) => write(at, "key", (await authority.issue(n1)).key), /the key is not that/],
    ["another authority", (at) => write(at, "roots", other.root), /does not lead to/],
    [
      "an intermediate in place of the root",
      async (at) => {
        const below = await authority.intermediate();
        const leaf = await below.issue(n1);
        writeCredentials(at, leaf, [leaf.certificate.slice(leaf.certificate.lastIndexOf("-----BEGIN"))]);
      },
      /does not lead to/,
    ],
    [
      "a scheduler",
      async (at) => write2(at, await authority.issue({ path: "csi/scheduler/s" })),
      /and this process is a node/,
    ],
    ["another node", async (at) => write2(at, await authority.issue({ path: "csi/node/n2" })), /and this is node\/n1/],
    ["no name", async (at) => write2(at, await authority.issue({ names: [] })), /names nobody/],
    ["an authority", async (at) => write2(at, await authority.issue({ ...n1, isAuthority: true })), /authority/],
  ];
  const write2 = (at: string, leaf: TestLeaf) => writeCredentials(at, leaf, [authority.root]);

  test.each(broken)("with %s no process starts, and the setting and the fault are named", async (_, change, words) => {
    const { directory, leaf } = await placed();
    await change(directory, leaf);
    expect(() => keeping(directory)).toThrow(
      expect.objectContaining({ reason: "CONFIG_INVALID", message: expect.stringMatching(words) }),
    );
    expect(() => keeping(directory)).toThrow(/HOLDFAST_TLS_DIR/);
  });

  test("an expired certificate starts all the same, is told, and is replaced", async () => {
    const { directory } = await placed({ ...n1, notBefore: Date.now() - 2 * hourMs, notAfter: Date.now() - hourMs });
    const { told, serial } = keeping(directory);
    expect(told()).toEqual([expect.stringMatching(/^it ended at .*the clock of this host says/)]);
    writeCredentials(directory, await authority.issue({ ...n1, serial: "00cc" }), [authority.root]);
    await expect.poll(serial).toBe("CC");
  });
});

describe("files that change", () => {
  test("the certificate first and the key later: the last good pair stays until both fit, and nothing is told", async () => {
    const { directory } = await placed({ ...n1, serial: "00aa" });
    const { serial, changes, told } = keeping(directory);
    const next = await authority.issue({ ...n1, serial: "00bb" });
    write(directory, "certificate", next.certificate);
    await settled();
    expect(serial()).toBe("AA");
    write(directory, "key", next.key);
    await expect.poll(serial).toBe("BB");
    expect(changes).toEqual(["BB"]);
    expect(told()).toEqual([]);
  });

  test("a new authority: leaf and key before the roots, which hold both for a while", async () => {
    const { directory } = await placed({ ...n1, serial: "00aa" });
    const { serial, changes } = keeping(directory);
    const next = await other.issue({ ...n1, serial: "00bb" });
    write(directory, "certificate", next.certificate);
    write(directory, "key", next.key);
    await settled();
    expect(serial()).toBe("AA");
    write(directory, "roots", authority.root + other.root);
    await expect.poll(serial).toBe("BB");
    expect(changes).toEqual(["BB"]);
  });

  test("roots in the middle of their writing, at the end of a whole one: what is there for a moment is never taken", async () => {
    const clock = createManualClock({ now: Date.now() });
    const { directory, leaf } = await placed({ ...n1, serial: "00aa" }, [other.root, authority.root]);
    const { keeper, changes } = keeping(directory, "n1", clock);
    for (let turn = 0; turn < 5; turn += 1) {
      write(directory, "roots", authority.root);
      await settled(50);
      // One look finds the half, and the next one that it was written since.
      await clock.advance(settleMs);
      writeCredentials(directory, leaf, [other.root, authority.root]);
      await clock.advance(lookMs);
    }
    expect(changes).toEqual([]);
    expect(keeper.current().roots.match(/BEGIN/g)).toHaveLength(2);
    write(directory, "roots", authority.root);
    await clock.advance(2 * lookMs);
    expect(changes).toEqual(["AA"]);
  });

  test("the file system tells of them, long before they are looked at on the clock", async () => {
    const clock = createManualClock({ now: Date.now() });
    const { directory } = await placed({ ...n1, serial: "00aa" });
    const { serial } = keeping(directory, "n1", clock);
    writeCredentials(directory, await authority.issue({ ...n1, serial: "00bb" }), [authority.root]);
    for (let passed = 0; passed < lookMs / 2 && serial() === "AA"; passed += settleMs / 2) {
      await settled(50);
      await clock.advance(settleMs / 2);
    }
    expect(serial()).toBe("BB");
  });

  test("links that are swapped, as a cluster mounts a secret", async () => {
    const top = tempDirectory();
    const place = async (name: string, serial: string) => {
      writeCredentials(path.join(top, name), await authority.issue({ ...n1, serial }), [authority.root]);
      symlinkSync(name, path.join(top, "..next"));
      renameSync(path.join(top, "..next"), path.join(top, "..data"));
    };
    await place("..1", "00aa");
    for (const file of Object.values(credentialFiles)) symlinkSync(path.join("..data", file), path.join(top, file));
    const { serial } = keeping(top);
    expect(serial()).toBe("AA");
    await place("..2", "00bb");
    rmSync(path.join(top, "..1"), { recursive: true });
    await expect.poll(serial).toBe("BB");
  });

  test("a link to a directory that is swapped itself, of which the file system tells nothing", async () => {
    const top = tempDirectory();
    for (const name of ["1", "2"])
      writeCredentials(path.join(top, name), await authority.issue({ ...n1, serial: `00${name}${name}` }), [
        authority.root,
      ]);
    mkdirSync(path.join(top, "links"));
    const link = path.join(top, "links", "tls");
    symlinkSync(path.join(top, "1"), link);
    const { serial } = keeping(link);
    symlinkSync(path.join(top, "2"), `${link}.next`);
    renameSync(`${link}.next`, link);
    expect(serial()).toBe("11");
    await expect.poll(serial).toBe("22");
  });

  test("what stays wrong is told once and shown by the metric, and what is right again ends that", async () => {
    const clock = createManualClock({ now: Date.now() });
    const { directory, leaf } = await placed({ ...n1, serial: "00aa" });
    const { serial, told, metrics } = keeping(directory, "n1", clock);
    write(directory, "key", "-----BEGIN PRIVATE KEY-----\n");
    await clock.advance(20 * lookMs);
    expect(told()).toEqual([expect.stringMatching(/tls\.key is cut off/)]);
    expect(serial()).toBe("AA");
    expect(await metrics.text()).toMatch(/^holdfast_certificate_files_refused 1$/m);
    write(directory, "key", leaf.key);
    await clock.advance(2 * lookMs);
    expect(await metrics.text()).toMatch(/^holdfast_certificate_files_refused 0$/m);
    expect(await metrics.text()).toMatch(/^holdfast_certificate_end_seconds 1\d{9}(\.\d+)?$/m);
  });

  test("an expired one takes the place of none that is valid", async () => {
    const { directory } = await placed({ ...n1, serial: "00aa" });
    const { serial, told } = keeping(directory);
    const past = { notBefore: Date.now() - 2 * hourMs, notAfter: Date.now() - hourMs };
    writeCredentials(directory, await authority.issue({ ...n1, ...past }), [authority.root]);
    await expect.poll(told).toEqual([expect.stringMatching(/^it ended at .*the clock of this host says/)]);
    expect(serial()).toBe("AA");
    expect(readFileSync(path.join(directory, credentialFiles.key), "utf8")).not.toBe("");
  });
});
