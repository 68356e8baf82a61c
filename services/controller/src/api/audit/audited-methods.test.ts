import { readFileSync } from "node:fs";
import path from "node:path";
import { GrantServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/grant";
import { NodeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/node";
import { PluginServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/plugin";
import { QuotaServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/quota";
import { RepairServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/repair";
import { SecretServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/secret";
import { TrustServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/trust";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import { expect, test } from "vitest";
import { auditedMethods } from "./audited-methods.ts";

const withActs = [
  GrantServiceDefinition,
  NodeServiceDefinition,
  PluginServiceDefinition,
  QuotaServiceDefinition,
  RepairServiceDefinition,
  SecretServiceDefinition,
  TrustServiceDefinition,
  VolumeServiceDefinition,
];

interface Requests {
  fromPartial(fields: object): Record<string, unknown>;
}

const requestsOf = new Map(
  withActs.flatMap(({ fullName, methods }) =>
    Object.values(methods).map(({ name, requestType }) => [`/${fullName}/${name}`, requestType as unknown as Requests]),
  ),
);

const canary = "cAnArY";
/** Whatever else makes a request of the method an act. */
const asked = {
  accept: true,
  clean: [4],
  inlineSecrets: { key: canary },
  values: { key: canary },
  context: { key: canary },
};

const acts = [...auditedMethods].flatMap(([method, row]) => (row === undefined ? [] : [{ method, row }]));
const requestOf = (method: string, fields: object = {}) => {
  const empty = requestsOf.get(method)?.fromPartial({}) ?? {};
  const known = Object.entries({ ...asked, ...fields }).filter(([field]) => field in empty);
  return { ...empty, ...Object.fromEntries(known) };
};

test("a dry run is no act, and neither is a question that its method also answers", () => {
  const dry = acts.filter(({ method }) => "dryRun" in requestOf(method));
  expect(dry.length).toBeGreaterThan(12);
  for (const { method, row } of acts) expect(row.acts(requestOf(method)), method).toBe(true);
  for (const { method, row } of dry) expect(row.acts(requestOf(method, { dryRun: true })), method).toBe(false);
  const none = { accept: false, clean: [], inlineSecrets: {} };
  const asking = acts.filter(({ method, row }) => !row.acts(requestOf(method, none)));
  expect(asking.map(({ method }) => path.basename(method)).sort()).toEqual([
    ...["CreateVolume", "RegisterVolume", "ScanOrphans", "Vet"],
  ]);
});

test("no value of a request gets into a line: names, versions and the reason alone", () => {
  for (const { method, row } of acts) {
    const request = requestOf(method, { reason: "why" });
    expect(JSON.stringify([row.subject(request), row.reason(request)]), method).not.toContain(canary);
    expect(row.reason(request), method).toBe("reason" in request ? "why" : "");
  }
});

test("docs/audit.md has a row for each, and none besides", () => {
  const page = readFileSync(path.join(import.meta.dirname, "../../../../../docs/audit.md"), "utf8");
  const rows = page.split("\n").flatMap((line) => /^\| `(\w+\/\w+)` \|/.exec(line)?.[1] ?? []);
  expect(rows.sort()).toEqual(acts.map(({ method }) => method.replace("/holdfast.v1.", "")).sort());
});
