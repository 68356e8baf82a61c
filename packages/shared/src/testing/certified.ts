/** Keepers of certificates in directories of their own, for one test. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { createMemoryLogger } from "../log/logger.ts";
import { type CertificateKeeper, createCertificateKeeper } from "../trust/certificate-keeper.ts";
import { certifiedRoles } from "../trust/spiffe-id.ts";
import { type LeafWish, type TestAuthority, writeCredentials } from "./test-authority.ts";

export function tempDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), "holdfast-tls-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export interface Certified {
  readonly directory: string;
  readonly keeper: CertificateKeeper;
}

/** The bearer of such a certificate; it trusts these roots, those of its own authority if none are named. */
export async function certified(
  authority: TestAuthority,
  wish: LeafWish,
  roots: readonly string[] = [authority.root],
): Promise<Certified> {
  const directory = tempDirectory();
  writeCredentials(directory, await authority.issue(wish), roots);
  const log = createMemoryLogger();
  const keeper = createCertificateKeeper({ path: directory, setting: "TEST", wanted: { roles: certifiedRoles }, log });
  onTestFinished(keeper.stop);
  return { directory, keeper };
}
