import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createMemoryLogger } from "../log/logger.ts";
import { createMetrics } from "../metrics.ts";
import { openAudit } from "./open-audit.ts";

const freshDir = (): string => {
  const dir = mkdtempSync(path.join(tmpdir(), "hf-audit-open-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
};

const open = async (stateDir: string, auditDir: string | undefined, metrics = createMetrics()) => {
  const parts = { by: { service: "test" }, now: () => 0, log: createMemoryLogger(), metrics };
  const audit = await openAudit({ stateDir, auditDir, auditFiles: 2 }, parts);
  onTestFinished(() => audit.close());
  return audit;
};

test("a directory of its own is one service's alone, until that one ends", async () => {
  const [stateDir, auditDir] = [freshDir(), path.join(freshDir(), "audit")];
  const first = await open(stateDir, auditDir);
  await expect(open(freshDir(), auditDir)).rejects.toMatchObject({
    reason: "AUDIT_DIR_IN_USE",
    message: expect.stringContaining("HOLDFAST_AUDIT_DIR"),
  });
  first.close();
  await open(freshDir(), auditDir);
});

test("without one it lies below the state directory, and its trails are told by metrics", async () => {
  const stateDir = freshDir();
  const metrics = createMetrics();
  const audit = await open(stateDir, undefined, metrics);
  audit.trail("acts").append({ kind: "act" });
  audit.trail("calls");
  expect(readdirSync(path.join(stateDir, "audit")).sort()).toEqual([
    "acts-0000000000000001.jsonl",
    "calls-0000000000000001.jsonl",
  ]);
  const text = await metrics.text();
  for (const line of [
    'holdfast_audit_lines{trail="acts"} 2',
    'holdfast_audit_lines{trail="calls"} 1',
    'holdfast_audit_failing{trail="acts"} 0',
  ])
    expect(text).toContain(line);
});

test("a directory that is taken away is told by metrics, and lines that are missing are counted", async () => {
  const stateDir = freshDir();
  const metrics = createMetrics();
  // A file where the directory would be.
  const audit = await open(path.join("/proc/self/stat", stateDir), undefined, metrics);
  expect(audit.trail("acts").append({ kind: "act" })).toBe(false);
  const text = await metrics.text();
  expect(text).toContain('holdfast_audit_failing{trail="acts"} 1');
  expect(text).toContain('holdfast_audit_missing_lines_total{trail="acts"} 1');
});
