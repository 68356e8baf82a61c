import { chmodSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { tempDirectory } from "../testing/certified.ts";
import { createTestAuthority, type LeafWish, writeCredentials } from "../testing/test-authority.ts";
import { credentialFiles } from "../trust/credential-files.ts";
import { examineCertificates } from "./examine-certificates.ts";
import { tlsTrouble } from "./tls-trouble.ts";

const hourMs = 3_600_000;
const now = Date.now();

const placed = async (wish: LeafWish = {}): Promise<string> => {
  const authority = await createTestAuthority();
  const directory = tempDirectory();
  writeCredentials(directory, await authority.issue(wish), [authority.root]);
  chmodSync(path.join(directory, credentialFiles.key), 0o600);
  return directory;
};

const found = (at: string | undefined, wanted = "node/n1") =>
  examineCertificates({ at, setting: "HOLDFAST_TLS_DIR", wanted, now }).map(({ id, level }) => `${level} ${id}`);

describe("the examination of a certificate", () => {
  test("finds nothing where there is none, and nothing wrong with a good one", async () => {
    expect(found(undefined)).toEqual([]);
    expect(found(await placed())).toEqual(["ok certificate"]);
    expect(found(await placed({ path: "csi/controller/c7" }), "controller")).toEqual(["ok certificate"]);
  });

  test.each<readonly [string, LeafWish, string]>([
    ["another role", { path: "csi/scheduler/s" }, "fault certificate-role"],
    ["another node", { path: "csi/node/n2" }, "fault certificate-role"],
    ["a time that has passed", { notBefore: now - 2 * hourMs, notAfter: now - hourMs }, "fault certificate-expired"],
    ["a clock that is behind", { notBefore: now + hourMs, notAfter: now + 2 * hourMs }, "fault certificate-early"],
    ["an end that is near", { notBefore: now - 9 * hourMs, notAfter: now + hourMs }, "warning certificate-expiring"],
  ])("finds %s", async (_, wish, finding) => {
    expect(found(await placed(wish))).toEqual([finding]);
  });

  test("finds files that do not fit, and a key that is open", async () => {
    const open = await placed();
    chmodSync(path.join(open, credentialFiles.key), 0o644);
    expect(found(open)).toEqual(["warning certificate-key-open"]);
    writeFileSync(path.join(open, credentialFiles.key), "");
    expect(found(open)).toEqual(["fault certificate-files"]);
    expect(found("/nowhere")).toEqual(["fault certificate-files"]);
  });
});

test.each([
  ["the server is spiffe://b/csi/controller/c, of another trust domain than a, which is ours", "certificate-domain"],
  ["the server is spiffe://a/csi/node/n, and no controller", "certificate-role"],
  ["certificate has expired", "certificate-expired"],
  ["certificate is not yet valid", "certificate-early"],
  ["self-signed certificate in certificate chain", "certificate-unknown"],
  ["error: wrong version number", "plain-port"],
])("what a client of TLS is told is a finding: %s", (message, id) => {
  expect(tlsTrouble("h:1", message)).toMatchObject({ id, level: "fault" });
  expect(tlsTrouble("h:1", "connect ECONNREFUSED")).toBeUndefined();
});
