/** The commands of operators, end to end against live services: nodes, plugins, secrets, placement, repair, events, completion. */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { NodeState } from "@holdfast/shared/gen/holdfast/v1/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { until } from "../harness/until.ts";
import { type CliOptions, cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

let cluster: Cluster;
let dir: string;
beforeAll(async () => {
  if (!root) return;
  dir = await mkdtemp(path.join(tmpdir(), "hf-keys-"));
  const keys = path.join(dir, "keys");
  writeFileSync(keys, `k1 ${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
  cluster = await startCluster({
    nodes: ["node-a", "node-b"],
    realMounts: true,
    controllerEnv: { HOLDFAST_SECRET_KEYS: keys },
  });
});
afterAll(async () => {
  await cluster?.stop();
  await rm(dir ?? "/nonexistent", { recursive: true, force: true });
});

const shop = (...members: readonly (readonly [source: string, id: string])[]): string =>
  [
    "group: shop",
    "members:",
    ...members.flatMap(([source, id]) => [
      `  - source: ${source}`,
      `    id: ${id}`,
      "    capabilities: [{ attachment_mode: file-system, access_mode: single-node-writer, fs_type: ext4 }]",
    ]),
  ].join("\n");
const files = {
  "data.yaml": `
id: data
plugin: sim.holdfast.dev
capacity: { required_bytes: 10MiB }
capabilities: [{ attachment_mode: file-system, access_mode: single-node-writer, fs_type: ext4 }]
`,
  "more.yaml": `
id: more
plugin: sim.holdfast.dev
capacity: { required_bytes: 10MiB }
capabilities: [{ attachment_mode: file-system, access_mode: single-node-writer, fs_type: ext4 }]
`,
  "nomad.pub": `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEIEuP1fKt790lmF/cFB1hgXR87Tdp
oETPMV/LG/hj6+AW1B9QmwtbpLy4iqIZhfNNjGq/KEcT9i2ar5ldRDVqWQ==
-----END PUBLIC KEY-----
`,
  "profile.yaml": "max_concurrent_calls: 8\nexclusive_methods: [CreateSnapshot]\n",
  "place.yaml":
    "capabilities: [{ attachment_mode: file-system, access_mode: single-node-writer }]\ntopology: { segments: { zone: a } }\n",
  "shop.yaml": shop(["db", "db-2"], ["wal", "wal-2"]),
  "shop-other.yaml": shop(["db", "wal-2"], ["wal", "db-2"]),
  "shop-bad.yaml": shop(["db", "db-3"], ["log", "log-3"]),
  "login.yaml": "user: admin\npassword: hunter2-canary\n",
  "bad-login.yaml": "user: admin\nport: 5432\n",
};
const run = (args: string, options: CliOptions = {}) =>
  cliRun(
    [...args.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? ""),
    { address: cluster.address, files, ...options },
  );
const golden = createGolden(run);

test.skipIf(!root)("node list, status, drain, undrain, forget", async () => {
  await golden("node-list", "node list --plugin sim.holdfast.dev");
  await golden("node-status", "node status node-a");
  await golden("node-stats", "node stats node-b");
  expect((await run("node status node-a -o name")).out).toBe("node-a\n");
  await golden("node-status-missing", "node status nothing", 3);
  await run("volume create data.yaml");
  await run("claim create web-1 data --node node-a");
  await golden("node-drain-no-wait", 'node drain node-a --reason "kernel update" --no-wait');
  await golden("node-drain-time-up", "node drain node-a --timeout 1s", 6);
  await golden("node-forget-in-use", "node forget node-a --dry-run", 4);
  await golden("node-forget-nothing", "node forget node-z");
  await run("claim release web-1");
  await golden("node-drain", "node drain node-a");
  await golden("node-admit", "node admit node-a 000000000000 --evidence x --reason y", 4);
  await golden("node-undrain", "node undrain node-a");
  for (const verb of ["drain", "undrain"]) expect((await run(`node ${verb} node-a -o name`)).out).toBe("node-a\n");
  await run("volume delete data");
});

test.skipIf(!root)("plugin list, status, profile, delete", async () => {
  await golden("plugin-list", "plugin list");
  await golden("plugin-status", "plugin status sim.holdfast.dev");
  await golden("plugin-profile", "plugin profile sim.holdfast.dev profile.yaml");
  for (const args of ["status sim.holdfast.dev", "profile sim.holdfast.dev profile.yaml"])
    expect((await run(`plugin ${args} -o name`)).out).toBe("sim.holdfast.dev\n");
  const socket = path.join(cluster.dir, "cp", "sim.sock");
  const said = [[cluster.dir, "<dir>"]] as const;
  await golden("plugin-accept", `plugin accept sim.holdfast.dev ${socket} --reason moved`, 0, {}, said);
  await golden("plugin-accept-none", `plugin accept sim.holdfast.dev ${socket}.x --reason moved`, 3, {}, said);
  await golden("plugin-delete-in-use", "plugin delete sim.holdfast.dev", 4);
  await golden("plugin-delete-nothing", "plugin delete sims.holdfast.dev");
  await golden("plugin-delete-nothing-missed", "plugin delete sim.holdfast.dev --node node-z");
});

test.skipIf(!root)("plugin list-volumes, list-snapshots, capacity: what the backend itself says", async () => {
  await run("volume create data.yaml --id known");
  await run("snapshot create known known-monday");
  await golden("plugin-list-volumes", "plugin list-volumes sim.holdfast.dev");
  await golden("plugin-list-snapshots", "plugin list-snapshots sim.holdfast.dev");
  await golden("plugin-list-snapshots-none", "plugin list-snapshots sim.holdfast.dev --of vol-nothing");
  await golden("plugin-capacity", "plugin capacity sim.holdfast.dev");
  await golden("plugin-capacity-spec", "plugin capacity sim.holdfast.dev place.yaml");
  await golden("plugin-capacity-missing", "plugin capacity nothing.example.com", 3);
  await run("snapshot delete known-monday");
  expect((await run("volume delete known")).code).toBe(0);
  await golden("plugin-list-volumes-none", "plugin list-volumes sim.holdfast.dev");
});

test.skipIf(!root)("secret put, list, delete; a value is never shown", async () => {
  const put = await run("secret put login login.yaml");
  expect([put.code, put.out]).toEqual([0, "default/login has version 1\n"]);
  await golden("secret-put", "secret put login login.yaml");
  await golden("secret-list", "secret list");
  expect((await run("secret put login login.yaml -o name")).out).toBe("login\n");
  await golden("secret-put-bad", "secret put login bad-login.yaml", 2);
  await golden("secret-delete", "secret delete login");
  await golden("secret-delete-nothing", "secret delete login");
  expect((await run("secret put login -", { files: { "-": "user: [hunter2-canary\n" } })).err).not.toContain("hunter2");
});

test.skipIf(!root)("grant set, show, list, delete", async () => {
  await golden("grant-list-none", "grant list");
  await golden("grant-show-none", "grant show nomad", 3);
  await golden(
    "grant-set",
    'grant set nomad --namespaces web,shop --plugins "*" --secret-roots file:shop --reason "as ordered"',
  );
  await golden("grant-set-bad", 'grant set nomad --namespaces Shop! --secret-roots shop --reason "as ordered"', 2);
  await golden("grant-show", "grant show nomad");
  await golden("grant-list", "grant list");
  const asked = "--namespaces shop --plugins * --ticket-keys nomad.pub --reason tickets";
  await golden("grant-set-ticket-keys", `grant set nomad ${asked}`);
  const withPrivate = { files: { "nomad.pub": files["nomad.pub"].replaceAll("PUBLIC", "PRIVATE") } };
  await golden("grant-set-private-key", `grant set nomad ${asked}`, 2, withPrivate);
  for (const text of ['{"keys":[{"kty":"EC","d":"c2VjcmV0"}]}', "hello", "{", '{"keys":[]}'])
    expect((await run(`grant set nomad ${asked}`, { files: { "nomad.pub": text } })).code, text).toBe(2);
  for (const args of ["show nomad", "set nomad --namespaces shop --reason x"])
    expect((await run(`grant ${args} -o name`)).out).toBe("nomad\n");
  await golden("grant-delete", 'grant delete nomad --reason "moved away"');
  await golden("grant-delete-nothing", 'grant delete nomads --reason "moved away"');
});

test.skipIf(!root)("quota set, status, list, delete", async () => {
  await golden("quota-list-none", "quota list");
  await golden("quota-status-none", "quota status -n shop", 3);
  await golden("quota-set", 'quota set -n shop --volumes 1 --bytes 1GiB --reason "as ordered"');
  await golden("quota-set-more", 'quota set -n shop --bytes none --snapshots 3 --reason "as ordered"');
  await golden("quota-set-bad", 'quota set -n shop --volumes many --reason "as ordered"', 2);
  await golden("quota-set-nothing", 'quota set -n shop --reason "as ordered"', 2);
  await run("volume create data.yaml -n shop");
  await golden("quota-status", "quota status -n shop");
  for (const args of ["status", "set --volumes 1 --reason x"])
    expect((await run(`quota ${args} -n shop -o name`)).out).toBe("shop\n");
  await golden("quota-exceeded", "volume create more.yaml -n shop", 4);
  await golden("quota-list", "quota list");
  await golden("quota-delete", 'quota delete -n shop --reason "not needed"');
  await golden("quota-delete-nothing", 'quota delete -n shops --reason "not needed"');
  await run("volume delete data -n shop");
});

test.skipIf(!root)("placement check", async () => {
  await run("volume create data.yaml");
  await golden("placement-check", "placement check data");
  await golden("placement-check-missing", "placement check nothing --feasible");
});

test.skipIf(!root)(
  "repair: what is stuck, what was overridden, and verbs that say first what they would mean",
  async () => {
    await golden("repair-stuck", "repair stuck -A");
    await golden("audit-list", "audit list");
    await golden("repair-vet", "repair vet");
    const { volume } = JSON.parse((await run("volume status data --json")).out) as { volume: { uid: string } };
    const forget = `repair forget-volume data ${volume.uid} --reason "array scrapped"`;
    const dry = await golden("repair-forget-volume", forget);
    expect(dry.out).toContain("nothing was done");
    const words = /--confirm "(.*)"$/m.exec(dry.out)?.[1] ?? "";
    expect(words).not.toBe("");
    const from = await cluster.events.watchEvents({})[Symbol.asyncIterator]().next();
    const done = await run(`${forget} --confirm "${words}"`);
    expect(done.out).toMatch(/^done; audit record /);
    const ctrlC = new AbortController();
    const onOutput = (text: string) => text.includes("AUDIT_FORGET_VOLUME") && ctrlC.abort();
    const followed = await run(`audit follow --since ${from.value?.resumeToken}`, { signal: ctrlC.signal, onOutput });
    expect(followed.out).toMatch(/^\S+ {2}AUDIT {2}AUDIT_FORGET_VOLUME {2}.*ForgetVolume on .*: array scrapped\n$/);
    await golden("audit-list-one", "audit list --volume data");
    await golden(
      "repair-abandon-claim",
      "repair abandon-claim data web-1 00000000-0000-4000-8000-000000000000 --evidence x --reason y",
      3,
    );
    await golden("repair-assert-detached", "repair assert-detached data node-a --evidence x --reason y", 3);
    await golden("repair-forget-controller", "repair forget-controller b/1-x.y --evidence x --reason y", 4);
    await golden("repair-take-over", "repair take-over data --evidence x --reason y", 3);
    await golden(
      "repair-clear-bar",
      "repair clear-bar data 00000000-0000-4000-8000-000000000000 --evidence x --reason y",
      3,
    );
    await golden("repair-adopt", 'repair adopt other sim.holdfast.dev vol-nothing --reason "found by scan"');
    await golden("repair-remove-orphan", "repair remove-orphan nothing --evidence x --reason y", 3);
  },
);

test.skipIf(!root)("upgrade: a new store has the newest format", async () => {
  await golden("upgrade-status", "upgrade status");
  await golden("upgrade-finish-over", 'upgrade finish --reason "all are new"', 4);
});

test.skipIf(!root)("repair scan", async () => {
  await golden("repair-scan", "repair scan --kind storage");
});

test.skipIf(!root)("snapshot create, list, status, delete; groups", async () => {
  await run("volume create data.yaml --id db");
  await run("volume create data.yaml --id wal");
  await golden("snapshot-create", "snapshot create db db-monday --label day=monday");
  await golden("snapshot-list", "snapshot list --volume db");
  await golden("snapshot-status", "snapshot status db-monday");
  for (const args of ["create db db-monday --label day=monday", "status db-monday"])
    expect((await run(`snapshot ${args} -o name`)).out).toBe("db-monday\n");
  await golden("snapshot-delete-forget", "snapshot delete db-monday --forget", 4);
  await golden("snapshot-create-topology", "snapshot create db db-there --topology zone=a", 4);
  await golden("snapshot-create-missing", "snapshot create nothing nothing-monday", 3);
  expect((await run("snapshot delete db-monday")).out).toBe("default/db-monday is gone\n");
  await golden("snapshot-delete", "snapshot delete db-monday");
  await golden("snapshot-create-group", "snapshot create-group shop db=db-1 wal=wal-1");
  await golden("snapshot-list-groups", "snapshot list-groups");
  await golden("snapshot-group-status", "snapshot group-status shop");
  for (const args of ["create-group shop db=db-1 wal=wal-1", "group-status shop"])
    expect((await run(`snapshot ${args} -o name`)).out).toBe("shop\n");
  await golden("snapshot-restore-group", "snapshot restore-group shop.yaml");
  await golden("snapshot-restore-group-other", "snapshot restore-group shop-other.yaml", 4);
  await golden("snapshot-restore-group-bad", "snapshot restore-group shop-bad.yaml", 2);
  await golden("volume-status-restored", "volume status db-2");
  for (const id of ["db-2", "wal-2"]) await run(`volume delete ${id}`);
  expect((await run("snapshot delete-group shop")).out).toBe("default/shop is gone\n");
  await golden("snapshot-delete-group", "snapshot delete-group shop");
});

test.skipIf(!root)("call: any method of the API, by its name, JSON in and out", async () => {
  const call = (method: string, json?: string, options: CliOptions = {}) =>
    cliRun(["call", method, ...(json === undefined ? [] : [json])], { address: cluster.address, ...options });
  await golden("call", 'call NodeService/GetNode {"name":"node-none"}', 3);
  const status = JSON.parse((await run("node status node-a --json")).out);
  for (const method of ["GetNode", "NodeService/GetNode", "/holdfast.v1.NodeService/GetNode"])
    expect(JSON.parse((await call(method, '{"name":"node-a"}')).out).node.name).toBe(status.node.name);
  expect((await call("ListQuotas")).code).toBe(0);
  const wrong = async (method: string, json?: string, options?: CliOptions) => {
    const { code, err } = await call(method, json, options);
    expect(code, err).toBe(2);
    return err;
  };
  expect(await wrong("GetNod", "{}")).toContain("did you mean: holdfast call NodeService/GetNode");
  expect(await wrong("holdfast.internal.v1.AgentLinkService/Link")).toContain("has no method");
  expect(await wrong("GetNode", '{"name":')).toContain("<json> is no JSON");
  expect(await wrong("GetNode", '{"nam":"x"}')).toContain("<json> is no GetNodeRequest");
  const login = '{"namespace":"default","name":"called","values":{"user":"hunter3"}}';
  expect(await wrong("PutSecret", login)).toContain("do not belong on a command line");
  expect(await wrong("CreateVolume", '{"inlineSecrets":{"a":"b"}}')).toContain("do not belong on a command line");
  expect(await wrong("PutSecret", "-", { files: { "-": "{hunter3" } })).not.toContain("hunter3");
  const put = await call("PutSecret", "-", { files: { "-": login } });
  expect(JSON.parse(put.out), put.err).toMatchObject({ version: "1", secret: { name: "called" } });
  expect((await run("secret delete called")).code).toBe(0);
  const ctrlC = new AbortController();
  const onOutput = (text: string) => text.includes("\n") && ctrlC.abort();
  const watched = await call("WatchNodes", "{}", { signal: ctrlC.signal, onOutput });
  expect([watched.code, Object.keys(JSON.parse(watched.out.split("\n")[0] ?? ""))], watched.err).toEqual([
    0,
    expect.arrayContaining(["kind", "node"]),
  ]);
});

test.skipIf(!root)("top: what there is, what each node has, and the calls that last", async () => {
  await run("volume create busy --plugin sim.holdfast.dev --size 10MiB");
  expect((await run("claim create web-7 busy --node node-a")).code).toBe(0);
  await cluster.backend.client.setFaults([{ method: "ControllerUnpublishVolume", hangMs: 6_000, times: 1 }]);
  await run("claim release web-7 --no-wait");
  const top = async () => JSON.parse((await run("top --json")).out);
  const seen = await until("the call", async () => (await top()).calls.length > 0 && (await top()));
  expect(seen.nodes).toEqual([
    { node: "node-a", state: "READY", claims: 1, active: 0, blocked: 0, calls: 1 },
    { node: "node-b", state: "READY", claims: 0, active: 0, blocked: 0, calls: 0 },
  ]);
  expect(seen.calls[0]).toMatchObject({
    subject: "volume default/busy",
    method: "ControllerUnpublishVolume",
    node: "node-a",
  });
  const { out } = await run("top");
  expect(out).toMatch(/^volumes +\d+ +AVAILABLE \d+\nclaims +1 +DETACHING 1\ncalls +1\n\n/);
  expect(out).toMatch(/\nNODE +STATE +CLAIMS +ACTIVE +BLOCKED +CALLS\nnode-a +READY +1 +0 +0 +1\n/);
  expect(out).toMatch(/\nCALL +OF +SINCE +ANSWER DUE\nControllerUnpublishVolume for node-a .*volume default\/busy/);
  await cluster.backend.client.setFaults([]);
  await until("the release", async () => (await run("claim list")).out === "no claim\n", 90_000);
  await golden("top", "top");
  expect((await run("volume delete busy")).code).toBe(0);
});

test.skipIf(!root)("events, from a token on, and completion", async () => {
  const ctrlC = new AbortController();
  const watching = run("events -f --volume late", {
    signal: ctrlC.signal,
    onOutput: (text) => text.includes("late") && ctrlC.abort(),
  });
  for (let i = 0; !ctrlC.signal.aborted && i < 100; i += 1)
    await run(`volume create data.yaml --id late`).then(() => run("volume delete late"));
  const seen = await watching;
  expect(seen.code).toBe(0);
  expect(seen.out).toContain("late");
  await golden("events", "events --volume nothing --for 100ms");
  await golden("audit-follow", "audit follow --for 100ms");
  await golden("completion", "completion bash");
  await golden("complete-line", "complete-line -- node status node-");
  await golden("complete-line-volume", "complete-line -- volume st");
});

test.skipIf(!root)("node fence: refused while the agent speaks, and a node that is off", async () => {
  const attested = '--powered-off "the PDU shows 0 W" --reason "host lost"';
  await golden("node-fence-alive", `node fence node-b ${attested}`, 4);
  await golden("node-fence-both", `node fence node-b ${attested} --detach-fences`, 2);
  await run("volume create data.yaml");
  await run("claim create web-1 data --node node-b");
  await cluster.node("node-b").agent().kill("SIGKILL");
  const stateOf = async (): Promise<NodeState | undefined> =>
    (await cluster.nodes.getNode({ name: "node-b" })).node?.state;
  await until("node-b to be silent", async () => (await stateOf()) === NodeState.NODE_STATE_SUSPECT);
  await golden("node-fence-no-evidence", 'node fence node-b --reason "host lost"', 4);
  await golden("node-fence-other-epoch", `node fence node-b ${attested} --epoch 7`, 4);
  await golden("node-fence-dry-run", `node fence node-b ${attested} --dry-run`);
  await cluster.backend.client.fence("node-b");
  await golden("node-fence", `node fence node-b ${attested}`);
  await golden("node-fence-again", `node fence node-b ${attested}`);
  await golden("node-status-fenced", "node status node-b");
  await golden("claim-status-fenced", "claim status web-1 data");
  await cluster.node("node-b").startAgent();
  await until("node-b to be READY", async () => (await stateOf()) === NodeState.NODE_STATE_READY);
  await run("volume delete data");
});
