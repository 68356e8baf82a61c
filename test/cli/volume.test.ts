/** Every command about volumes and claims, end to end against live services, as people and as programs read it. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { type CliOptions, cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

let cluster: Cluster;
beforeAll(async () => {
  if (root) cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true });
});
afterAll(() => cluster?.stop());

const spec = `
id: data
plugin: sim.holdfast.dev
capacity: { required_bytes: 10MiB }
capabilities:
  - attachment_mode: file-system
    access_mode: single-node-writer
    fs_type: ext4
labels: { team: search }
`;
const claimSpec = `
workload: web-3
node: node-a
claims:
  - { volume: data, read_only: true }
`;
const files = { "data.yaml": spec, "claims.yaml": claimSpec };
const run = (args: string, options: CliOptions = {}) =>
  cliRun(args.split(" "), { address: cluster.address, files, ...options });
const golden = createGolden(run);

test.skipIf(!root)("volume create, list, status, explain, label, and the same file again", async () => {
  await golden("volume-create", "volume create data.yaml");
  await golden("volume-list", "volume list");
  await golden("volume-list-nothing", "volume list nothing --state deleting");
  await golden("volume-status", "volume status data");
  await golden("volume-status-missing", "volume status nothing", 3);
  await golden("volume-explain", "volume explain data");
  await golden("volume-label", "volume label data team=search tier=1 --reason moved");
  await golden("volume-expand", "volume expand data 20MiB");
  await golden("volume-modify", "volume modify data iops=8000");
});

test.skipIf(!root)("claim create, list, status, release; a conflict names its holder", async () => {
  await run("volume create data.yaml");
  await golden("claim-create", "claim create web-1 data --node node-a");
  await golden("claim-list", "claim list --node node-a");
  await golden("claim-status", "claim status web-1 data");
  await golden("volume-explain-claimed", "volume explain data");
  await golden("claim-create-conflict", "claim create web-2 data --node node-b", 4);
  await golden("volume-delete-in-use", "volume delete data", 4);
  await golden("claim-hand-over", "claim hand-over web-1 web-2 --node node-b");
  const released = await run("claim release web-1");
  expect([released.code, released.err.includes("FAILED")]).toEqual([0, false]);
  const successor = await run("claim create web-2 data --node node-b");
  expect(successor.code, successor.err).toBe(0);
  await golden("claim-release", "claim release web-2");
  await golden("claim-create-file", "claim create -f claims.yaml");
  await run("claim release web-3");
});

test.skipIf(!root)("volume stats and detach, deregister and register", async () => {
  await run("volume create data.yaml --id spare");
  await run("claim create web-9 spare --node node-a");
  const released = await run("volume detach spare node-a");
  expect([released.code, released.out.includes("RELEASED")]).toEqual([0, true]);
  await golden("volume-detach", "volume detach spare node-a");
  await golden("volume-stats", "volume stats spare");
  const { volume } = JSON.parse((await run("volume status spare --json")).out) as { volume: { external_id: string } };
  expect((await run("volume deregister spare")).code).toBe(0);
  await golden("volume-deregister", "volume deregister spare");
  const found = `${spec.replace("id: data", "id: found")}external_id: ${volume.external_id}\n`;
  await golden("volume-register", "volume register found.yaml", 0, { files: { "found.yaml": found } });
  expect((await run("volume delete found")).code).toBe(0);
});

test.skipIf(!root)("volume delete, and again", async () => {
  await run("volume create data.yaml");
  const first = await run("volume delete data");
  expect([first.code, first.out]).toEqual([0, "default/data is gone\n"]);
  await golden("volume-delete", "volume delete data");
});

test.skipIf(!root)("a bad spec names line, field and rule, all at once, and nothing is sent", async () => {
  const bad = [
    "id: data",
    "plugin: sim.holdfast.dev",
    "capacity: { required_bytes: much }",
    "capabilities:",
    "  - attachment_mode: file",
    "    acces_mode: single-node-writer",
    "labels: [a, b]",
    "wait_for: 3s",
  ].join("\n");
  await golden("spec-bad", "volume create bad.yaml", 2, { files: { "bad.yaml": bad } });
  await golden("spec-unreadable", "volume create bad.yaml", 2, { files: { "bad.yaml": "id: [a\nb: }" } });
  await golden("spec-missing", "volume create none.yaml", 2);
  expect((await run("volume list")).out).toBe("no volume\n");
});

test.skipIf(!root)("what the controller finds wrong with a spec is told by line too", async () => {
  const bad =
    "id: UPPER\nplugin: sim.holdfast.dev\ncapabilities:\n  - attachment_mode: file-system\n    access_mode: single-node-writer\n    volume_mount_group: x\n    fs_type: ext4\nlabels: {}\nnamespace: NO\n";
  await golden("spec-refused", "volume create bad.yaml", 2, { files: { "bad.yaml": bad } });
});

test.skipIf(!root)("Ctrl-C ends the wait and not the work, and says how to look and to stop", async () => {
  await cluster.backend.client.setFaults([{ method: "CreateVolume", hang: true, times: "always" }]);
  const ctrlC = new AbortController();
  const { code, err } = await run("volume create data.yaml --id slow", {
    signal: ctrlC.signal,
    onProgress: (text) => text.includes("CREATING") && ctrlC.abort(),
  });
  expect(code).toBe(130);
  expect(err).toContain("no longer waiting for volume default/slow to be available; the work goes on (INTERRUPTED)");
  expect(err).toContain("holdfast volume explain slow --namespace default");
  expect(err).toContain("holdfast volume delete slow --namespace default");
  expect((await run("volume explain slow")).out).toContain("CREATING");
});
