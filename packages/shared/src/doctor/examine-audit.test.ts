import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemDisk } from "../audit/audit-disk.ts";
import { openAuditTrail } from "../audit/audit-trail.ts";
import { createMemoryLogger } from "../log/logger.ts";
import { examineAudit } from "./examine-audit.ts";

const freshDir = (): string => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-audit-check-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
};

test("an audit that can be written is fine, also before its directory is made", async () => {
  const stateDir = freshDir();
  expect(await examineAudit({ stateDir, auditDir: undefined })).toMatchObject([
    { id: "audit-dir", level: "ok", subject: path.join(stateDir, "audit") },
  ]);
});

test("a directory that cannot be, or is open to others, and a full disk are told", async () => {
  const stateDir = freshDir();
  const file = path.join(stateDir, "file");
  writeFileSync(file, "");
  const place = { stateDir, auditDir: path.join(file, "audit") };
  expect(await examineAudit(place)).toMatchObject([{ id: "audit-dir", level: "fault" }]);
  const auditDir = path.join(stateDir, "open");
  mkdirSync(auditDir);
  chmodSync(auditDir, 0o755);
  const found = await examineAudit({ stateDir, auditDir });
  expect(found).toMatchObject([{ level: "ok" }, { id: "audit-open", level: "warning", cure: `chmod go= ${auditDir}` }]);
  const full = await examineAudit({ stateDir, auditDir }, () => 1_000_000);
  expect(full).toMatchObject([{ id: "audit-full", level: "fault", message: expect.stringContaining("1000000 bytes") }]);
});

test("lines that are missing are told by the files themselves", async () => {
  const stateDir = freshDir();
  const directory = path.join(stateDir, "audit");
  let broken = false;
  const disk = {
    ...systemDisk,
    write(fd: number, bytes: Uint8Array) {
      if (broken) throw Object.assign(new Error("full"), { code: "ENOSPC" });
      return systemDisk.write(fd, bytes);
    },
  };
  const trail = openAuditTrail({
    ...{ directory, name: "calls", by: {}, maxFiles: 2, disk, now: () => 0, log: createMemoryLogger() },
    onMissing: () => undefined,
  });
  onTestFinished(() => trail.close());
  broken = true;
  trail.append({ kind: "call" });
  broken = false;
  trail.append({ kind: "call" });
  expect(await examineAudit({ stateDir, auditDir: undefined })).toMatchObject([
    { id: "audit-dir", level: "ok" },
    { id: "audit-gap", level: "warning", message: "lacks 1 lines since 1970-01-01T00:00:00.000Z (ENOSPC)" },
  ]);
});
