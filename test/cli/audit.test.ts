/** `holdfast audit verify` on files, without a service. */
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { systemDisk } from "@holdfast/shared/audit/audit-disk";
import { openAuditTrail } from "@holdfast/shared/audit/audit-trail";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, onTestFinished, test } from "vitest";
import { cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

const golden = createGolden((args) => cliRun(args.split(" ")));

const writeAudit = () => {
  const directory = mkdtempSync(path.join(tmpdir(), "hf-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  for (const name of ["acts", "calls"]) {
    const trail = openAuditTrail({
      ...{ directory, name, by: { service: name }, maxFiles: 9, maxBytes: 300, disk: systemDisk },
      ...{ now: () => 1_700_000_000_000, log: createMemoryLogger(), onMissing: () => undefined },
    });
    for (let n = 1; n <= 4; n += 1) trail.append({ kind: "call", n });
    trail.close();
  }
  return directory;
};

test("files as they were written are told with their heads; one that was changed with its line and the reason", async () => {
  const directory = writeAudit();
  const { out } = await golden("audit-verify", `audit verify ${directory}`);
  const head = /[0-9a-f]{64}/.exec(out)?.[0];
  expect((await cliRun(["audit", "verify", directory, "--head", head ?? ""])).code).toBe(0);
  const [first = ""] = readdirSync(directory).sort();
  const file = path.join(directory, first);
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace('"n":1', '"n":7'));
  await golden("audit-verify-changed", `audit verify ${directory}`, 1);
  writeFileSync(file, text);
  appendFileSync(path.join(directory, readdirSync(directory).sort().at(-1) ?? ""), '{"seq":7,');
  await golden("audit-verify-torn", `audit verify ${directory}`, 1);
});

test("an end that was cut off is found by the head that the log told", async () => {
  const directory = writeAudit();
  const heads = (await cliRun(["audit", "verify", directory])).out.match(/[0-9a-f]{64}/g) ?? [];
  const last = path.join(directory, readdirSync(directory).sort().at(-1) ?? "");
  writeFileSync(last, `${readFileSync(last, "utf8").split("\n").slice(0, -2).join("\n")}\n`);
  expect((await cliRun(["audit", "verify", directory])).code).toBe(0);
  await golden("audit-verify-cut", `audit verify ${directory} --head ${heads.at(-1)}`, 1);
});

test("where there is no audit, or no hash was given, it says so", async () => {
  await golden("audit-verify-nothing", "audit verify /nonexistent/audit", 1);
  await golden("audit-verify-no-hash", "audit verify /nonexistent/audit --head abc", 2);
  const empty = mkdtempSync(path.join(tmpdir(), "hf-"));
  onTestFinished(() => rmSync(empty, { recursive: true, force: true }));
  await golden("audit-verify-empty", `audit verify ${empty}`, 1);
});
