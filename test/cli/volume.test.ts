/** Every command about volumes and claims, end to end against live services, as people and as programs read it. */
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { claimVolumeId } from "@holdfast/shared/claim-volume-id";
import { readApiImage } from "@holdfast/shared/grpc/api-image";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { until } from "../harness/until.ts";
import { type CliOptions, cliRun } from "./cli-run.ts";
import { createGolden } from "./golden.ts";

const root = process.getuid?.() === 0;
if (!root) console.warn("SKIPPED: real mounts need root");

let cluster: Cluster;
beforeAll(async () => {
  if (root)
    cluster = await startCluster({
      nodes: ["node-a", "node-b"],
      realMounts: true,
      controllerEnv: { HOLDFAST_SECRET_ENV: "STORAGE_@default", STORAGE_LOGIN: '{"user":"ada"}' },
    });
});
afterAll(() => cluster?.stop());

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, await readApiImage()));
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
const jobSpec = `
workload: job-1
node: node-a
claims:
  - alias: scratch
    capability: { attachment_mode: file-system, access_mode: single-node-writer, fs_type: ext4 }
    template: { lifetime: ephemeral, plugin: sim.holdfast.dev, capacity: { required_bytes: 10MiB } }
`;
const jobVolume = claimVolumeId("job-1", "scratch");
const files = { "data.yaml": spec, "claims.yaml": claimSpec, "job.yaml": jobSpec };
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

test.skipIf(!root)("volume create by name and options, beside files", async () => {
  const options = "--plugin sim.holdfast.dev --size 10MiB";
  await golden("volume-create-name", `volume create named ${options} --fs ext4 --mode single-node-single-writer`);
  const same = await run(`volume create named ${options} --fs ext4 --mode single-node-single-writer`);
  expect(same.code, same.err).toBe(0);
  expect((await run(`volume create named ${options} --fs xfs`)).err).toContain("VOLUME_EXISTS");
  const block = await run(`volume create raw ${options} --block`);
  expect([block.code, /Capabilities: +BLOCK_DEVICE SINGLE_NODE_WRITER\n/.test(block.out)]).toEqual([0, true]);
  await golden("volume-create-no-file", "volume create named", 2);
  const asked = async (args: string) => {
    const { code, err } = await run(`volume create ${args}`);
    expect(code, err).toBe(2);
    return err;
  };
  expect(await asked("data.yaml --size 1GiB --block")).toContain("--size, --block: without --plugin");
  expect(await asked(`never ${options} --id other`)).toContain("--id: with --plugin the argument is the id");
  expect(await asked(`never ${options} --block --fs ext4`)).toContain("give one of the two");
  expect(await asked(`never ${options} --size much`)).toContain("--size much: has to be a size");
  expect(await asked(`never ${options} --mode one`)).toContain("there are single-node-writer");
  expect(await asked("NEVER --plugin sim.holdfast.dev")).toContain("id: ");
  expect((await run("volume status never")).code).toBe(3);
  for (const id of ["named", "raw"]) expect((await run(`volume delete ${id}`)).code).toBe(0);
});

test.skipIf(!root)("claim create, list, status, release; a conflict names its holder", async () => {
  await run("volume create data.yaml");
  const waited = await run("claim create web-1 data --node node-a");
  expect([waited.code, waited.err.endsWith("… data ACTIVE\n")], waited.err).toEqual([0, true]);
  await golden("claim-create", "claim create web-1 data --node node-a");
  await golden("claim-list", "claim list --node node-a");
  const narrow = await run("claim list", { terminal: true, columns: 80 });
  for (const line of narrow.out.split("\n")) expect(line.length, line).toBeLessThanOrEqual(80);
  expect(narrow.out).toMatch(/ACTIVE.* \/tmp\/hf-.*…/);
  const { host_path: path } = JSON.parse((await run("claim list -o json")).out).claims[0];
  expect((await run("claim list -o wide", { terminal: true, columns: 80 })).out).toContain(path);
  await golden("volume-list-claimed", "volume list");
  await golden("claim-status", "claim status web-1 data");
  await golden("volume-explain-claimed", "volume explain data");
  await golden("claim-create-conflict", "claim create web-2 data --node node-b", 4);
  await golden("volume-delete-in-use", "volume delete data", 4);
  await golden("claim-hand-over", "claim hand-over web-1 web-2 --node node-b");
  await golden("claim-release-typo", "claim release wbe-1", 3);
  expect((await run("claim release web-1 nothing")).err).toContain("has no claim under nothing; nothing was released");
  const released = await run("claim release web-1");
  expect([released.code, released.err.includes("FAILED")]).toEqual([0, false]);
  const again = await run("claim release web-1");
  expect([again.code, again.out]).toEqual([0, released.out]);
  const successor = await run("claim create web-2 data --node node-b");
  expect(successor.code, successor.err).toBe(0);
  // Once for people, and once for programs: each needs a claim to release.
  await createGolden(async (args) => {
    expect((await run("claim create web-2 data --node node-b")).code).toBe(0);
    return await run(args);
  })("claim-release", "claim release web-2");
  await golden("claim-create-file", "claim create -f claims.yaml");
  await run("claim release web-3");
  await golden("claim-create-template", "claim create -f job.yaml");
  await golden("volume-status-ephemeral", `volume status ${jobVolume}`);
  expect((await run("claim release job-1")).code).toBe(0);
  await until("its volume is gone", async () => (await run(`volume status ${jobVolume}`)).code === 3);
});

test.skipIf(!root)(
  "D4 D5 a wait ends as soon as what it waits for is refused or blocked, with what to do",
  async () => {
    await run("volume create data.yaml --id wish");
    const faults = cluster.backend.client;
    await faults.setFaults([
      {
        method: "ControllerModifyVolume",
        code: "INVALID_ARGUMENT",
        message: "iops must be below 1000",
        times: "always",
      },
      { method: "ControllerExpandVolume", code: "OUT_OF_RANGE", message: "the pool is too small", times: "always" },
    ]);
    await golden("volume-modify-refused", "volume modify wish iops=1e9", 1);
    await golden("volume-expand-refused", "volume expand wish 30GiB", 1);
    await run("claim create web-8 wish --node node-a");
    await faults.setFaults([{ method: "ControllerExpandVolume", code: "FAILED_PRECONDITION", times: "always" }]);
    await golden("volume-expand-blocked", "volume expand wish 20MiB", 7);
    await faults.setFaults([{ method: "ControllerUnpublishVolume", code: "PERMISSION_DENIED", times: "always" }]);
    await run("claim release web-8 --no-wait");
    await golden("node-drain-blocked", "node drain node-a", 7);
    await faults.setFaults([]);
    // It is blocked until its next try.
    await until("the release", async () => [0, 3].includes((await run("claim release web-8")).code), 90_000);
    await run("node undrain node-a");
    expect((await run("volume delete wish")).code).toBe(0);
  },
);

test.skipIf(!root)("volume stats and detach, deregister and register", async () => {
  await run("volume create data.yaml --id spare");
  await run("claim create web-9 spare --node node-a");
  const released = await run("volume detach spare node-a");
  expect([released.code, released.out.includes("RELEASED")]).toEqual([0, true]);
  await golden("volume-detach", "volume detach spare node-a");
  expect((await run("volume detach spaer node-a")).code).toBe(3);
  expect((await run("volume detach spare node-x")).code).toBe(3);
  await golden("volume-stats", "volume stats spare");
  const { volume } = JSON.parse((await run("volume status spare --json")).out) as { volume: { external_id: string } };
  expect((await run("volume deregister spare")).code).toBe(0);
  await golden("volume-deregister", "volume deregister spare");
  const found = `${spec.replace("id: data", "id: found")}external_id: ${volume.external_id}\n`;
  await golden("volume-register", "volume register found.yaml", 0, { files: { "found.yaml": found } });
  expect((await run("volume delete found")).code).toBe(0);
});

test.skipIf(!root)("claim list-token and reconcile: what the scheduler still knows is left alone", async () => {
  for (const [volume, workload] of [
    ["one", "lost-1"],
    ["two", "lost-2"],
    ["three", "runs-1"],
  ]) {
    await run(`volume create data.yaml --id ${volume}`);
    expect((await run(`claim create ${workload} ${volume} --node node-a`)).code).toBe(0);
  }
  await golden("claim-list-token", "claim list-token", 0, {}, [[/[\w-]{24,}/g, "<token>"]]);
  const token = (await run("claim list-token")).out.trim();
  await run("volume create data.yaml --id late");
  expect((await run("claim create late-1 late --node node-a")).code).toBe(0);
  const lists = {
    "running.txt": "# what the scheduler still knows\n\nruns-1\n",
    "elsewhere.txt": "other/runs-1\n",
    "none.txt": "\n",
    "bad.txt": "runs-1\na/b/c\n",
    "worse.txt": "runs-1\nruns\u200b2\n",
  };
  const at = { files: lists };
  const line = (rest: string) => `claim reconcile --token ${token} ${rest}`;
  const standing = async () => (await run("claim list --node node-a")).out;

  expect((await run(line("--live none.txt"), at)).err).toContain("none.txt names no workload");
  expect((await run(line("--node node-a"), at)).err).toContain("either --live with a list, or --none-live");
  expect((await run(line("--live running.txt --none-live"), at)).code).toBe(2);
  expect((await run(line("-A --live running.txt"), at)).err).toContain("--node says which");
  expect((await run(line("--live bad.txt"), at)).err).toContain('bad.txt:2: "a/b/c" has to be');
  expect((await run(line("--live worse.txt"), at)).err).toContain('worse.txt:2: workload of "runs\u200b2" must hold');
  expect((await run(line("--live elsewhere.txt"), at)).err).toContain("elsewhere.txt:1: namespace of");
  const before = await standing();

  const tokens = [[token, "<token>"]] as const;
  await golden("claim-reconcile-dry-run", line("--node node-a --live running.txt --dry-run"), 0, at, tokens);
  expect((await standing()).replaceAll(/\d+s ago/g, "")).toBe(before.replaceAll(/\d+s ago/g, ""));
  const seen: string[] = [];
  const done = await run(line("--live - --reason purged"), {
    files: { "-": lists["running.txt"] },
    onProgress: (text) => seen.push(text),
  });
  expect(done.code, done.err).toBe(0);
  expect(done.out).toContain("claims released: 2\n");
  expect(seen.at(-1)).toContain("of 2 workloads released");
  const after = (await standing()).split("\n").flatMap((row) => /^(?:lost|runs|late)-\d/.exec(row)?.[0] ?? []);
  expect(after.sort()).toEqual(["late-1", "runs-1"]);
  await golden("claim-reconcile", line("--live running.txt"), 0, at, tokens);
  await golden("claim-reconcile-bad-token", "claim reconcile --token nonsense --none-live", 2);

  const rest = (await run("claim list-token")).out.trim();
  const last = await run(`claim reconcile --token ${rest} --node node-a -A --none-live --json`);
  expect(JSON.parse(last.out)).toMatchObject({ released_count: "2" });
  expect(await standing()).toBe("no claim\n");
  for (const volume of ["one", "two", "three", "late"]) expect((await run(`volume delete ${volume}`)).code).toBe(0);
});

test.skipIf(!root)("colours and a live line on a terminal alone; with --json neither", async () => {
  const control = "\u001b[";
  const lineGone = `\r${control}2K`;
  const explain = (options: CliOptions, more = "") => run(`volume explain data${more}`, options);
  await run("volume create data.yaml");
  expect((await explain({ terminal: true })).out).toContain(control);
  expect((await explain({ terminal: false })).out).not.toContain(control);
  expect((await explain({ terminal: true, env: { NO_COLOR: "1" } })).out).not.toContain(control);
  expect((await explain({ terminal: true }, " --colour never")).out).not.toContain(control);
  expect((await explain({ terminal: false }, " --colour always")).out).toContain(control);
  expect((await explain({ terminal: true }, " --json")).out).not.toContain(control);

  await cluster.backend.client.setFaults([{ method: "CreateVolume", code: "UNAVAILABLE", times: 1 }]);
  const live = await run("volume create data.yaml --id live", { terminal: true });
  expect(live.code, live.err).toBe(0);
  const drawn = live.err.split(lineGone);
  expect(drawn.some((line) => line.startsWith("… ") && line.includes("CREATING"))).toBe(true);
  // It is taken away at the end.
  expect(drawn.at(-1)).not.toContain("…");
  await cluster.backend.client.setFaults([{ method: "CreateVolume", code: "UNAVAILABLE", times: 1 }]);
  const silent = await run("volume create data.yaml --id silent --json", { terminal: true });
  expect([silent.code, silent.err.includes("…")]).toEqual([0, false]);
  for (const id of ["live", "silent"]) await run(`volume delete ${id}`);
});

test.skipIf(!root)("a list as names, YAML, JSON, wide, or columns by their titles", async () => {
  await run("volume create data.yaml --id one");
  const out = async (args: string) => (await run(args)).out;
  expect(await out("volume list one -o name")).toBe("one\n");
  expect(await out("volume list none -o name")).toBe("");
  expect(await out("volume list one -o columns=id,state,Mode,fs")).toBe(
    "ID   STATE      MODE                FS\none  AVAILABLE  single-node-writer  ext4\n",
  );
  expect(await out("volume list one")).not.toContain("NAMESPACE");
  expect(await out("volume list one -A")).toMatch(/^NAMESPACE {2}ID/);
  expect(await out("volume list one -o wide")).toMatch(/^NAMESPACE .* CREATED +CALL\n/);
  const json = await out("volume list one --json");
  expect(await out("volume list one -o json")).toBe(json);
  expect(parse(await out("volume list one -o yaml"))).toEqual(JSON.parse(json));
  expect(await out("plugin list-volumes sim.holdfast.dev -o columns=external-id")).toMatch(/^EXTERNAL ID\nvol-/);
  const refused = async (args: string) => {
    const { code, err } = await run(`volume list one ${args}`);
    expect(code).toBe(2);
    return err;
  };
  expect(await refused("-o columns=id,size,nothing")).toContain(
    'there is no column "nothing"; there are NAMESPACE, ID,',
  );
  expect(await refused("-o table")).toContain("--output table: there are wide, json, yaml, name");
  expect(await refused("--json -o name")).toContain("exclude each other");
  expect(await refused("--json -o yaml")).toContain("exclude each other");
  expect((await run("volume delete one")).code).toBe(0);
});

test.skipIf(!root)("one object as a name, YAML or JSON", async () => {
  const out = async (args: string) => {
    const { code, out: text, err } = await run(args);
    expect(code, err).toBe(0);
    return text;
  };
  expect(await out("volume create data.yaml --id one -o name")).toBe("one\n");
  for (const args of [
    "status one",
    "inspect one",
    "explain one",
    "label one form=name",
    "apply data.yaml --id one --yes",
    "expand one 20MiB",
    "modify one iops=8000",
  ])
    expect([args, await out(`volume ${args} -o name`)]).toEqual([args, "one\n"]);
  const json = await out("volume status one --json");
  expect(await out("volume status one -o json")).toBe(json);
  expect(parse(await out("volume status one -o yaml"))).toEqual(JSON.parse(json));
  expect((await run("volume status one --json -o name")).err).toContain("exclude each other");
  const dryRun = await run("volume apply data.yaml --id one --dry-run -o name");
  expect([dryRun.code, dryRun.err.includes("a difference has no name")]).toEqual([2, true]);

  expect(await out("claim create web-1 one=db --node node-a -o name")).toBe("web-1 db\n");
  expect(await out("claim status web-1 one db -o name")).toBe("web-1 db\n");
  expect(await out("claim hand-over web-1 web-2 --node node-a -o name")).toBe("web-2 db\n");
  expect(await out("claim release web-1 -o name")).toBe("web-1 db\n");
  expect(await out("claim release web-2 -o name")).toBe("web-2 db\n");
  await out("volume delete one");
});

test.skipIf(!root)("-w shows a list again when a record has changed, and ends with Ctrl-C", async () => {
  await run("volume create data.yaml --id one");
  const watched = async (args: string, options: CliOptions = {}) => {
    const ctrlC = new AbortController();
    const labels = args.includes("json") ? "json" : "text";
    let changed: Promise<unknown> | undefined;
    const { code, out } = await run(args, {
      ...options,
      signal: ctrlC.signal,
      onOutput: () => {
        if (changed === undefined) changed = run(`volume label one form=${labels}${options.terminal ?? ""}`);
        else ctrlC.abort();
      },
    });
    await changed;
    expect(code).toBe(0);
    return out;
  };
  expect(await watched("volume list one -w -o columns=id,state")).toMatch(/^(ID.*\none .*\n)\n\1$/);
  const [before, after] = (await watched("volume list one -w -o json")).trimEnd().split("\n");
  expect([before, after].map((line) => JSON.parse(line ?? "").volumes[0].labels)).toEqual([
    { form: "text" },
    { form: "json" },
  ]);
  const drawn = await watched("volume list one -w", { terminal: true });
  expect(drawn.split("\u001b[H\u001b[2J").length).toBeGreaterThanOrEqual(3);
  expect((await run("volume delete one")).code).toBe(0);
});

test.skipIf(!root)("volume init prints a file that makes a volume, and names every field of the request", async () => {
  await golden("volume-init", "volume init --plugin sim.holdfast.dev");
  const { out } = await run("volume init --plugin sim.holdfast.dev");
  const made = await run("volume create - --id example", { files: { "-": out.replace("10GiB", "10MiB") } });
  expect(made.code, made.err).toBe(0);
  const fields = registry.getMessage("holdfast.v1.CreateVolumeRequest")?.fields.map(({ name }) => name) ?? [];
  const inFile = (name: string) => new RegExp(`^(?:# )?${name}:`, "m").test(out);
  expect(fields.filter((name) => !inFile(name))).toEqual(["request_id", "wait_for"]);
  // The lines behind # are fields too.
  const all = out.replace(/^# (?= *[a-z_]+:(?: |$)| {2})/gm, "").replace(/^inline_secrets.*$/m, "");
  const whole = await run("volume apply - --id none", { files: { "-": all } });
  expect([whole.code, whole.err.includes("there is no volume default/none")], whole.err).toEqual([3, true]);
  expect((await run("volume delete example")).code).toBe(0);
});

test.skipIf(!root)("volume apply shows the difference, asks, and changes what the file says", async () => {
  const two =
    "capabilities:\n  - { attachment_mode: file-system, access_mode: single-node-single-writer, fs_type: ext4 }";
  const first = spec.replace("capabilities:", two);
  await run("volume create data.yaml --id kept", { files: { "data.yaml": first } });
  const apply = (content: string, args = "", options: CliOptions = {}) =>
    run(`volume apply data.yaml --id kept${args}`, { files: { "data.yaml": content }, ...options });
  const edited = `${spec.replace("team: search", "team: ops").replace("10MiB", "20MiB")}
policy: { reclaim: retain }
mutable_parameters: { iops: "8000" }
secrets: { node_stage: { ref: "env:STORAGE_LOGIN" } }
`;
  const record = async () => JSON.parse((await run("volume status kept --json")).out).volume;
  const before = await record();

  expect(await apply(first)).toMatchObject({ code: 0, err: "volume default/kept is as the file says\n" });
  const dry = await apply(edited, " --dry-run");
  expect(dry).toMatchObject({ code: 0, err: "" });
  expect(await apply(edited)).toMatchObject({ code: 2, err: expect.stringContaining("the same command with --yes") });
  expect((await apply(edited, " --json")).code).toBe(2);
  const no = await apply(edited, "", { says: false });
  expect(no).toMatchObject({ code: 1, err: expect.stringContaining("nothing of default/kept was changed") });
  expect(no.err).toContain(`${dry.out}Change default/kept so?\n`);
  const fixed = `${edited.replace("plugin: sim.holdfast.dev", "plugin: other.example")}parameters: { a: b }\n`;
  await golden("volume-apply-fixed", "volume apply data.yaml --id kept --yes", 2, { files: { "data.yaml": fixed } });
  expect(await record()).toEqual(before);

  const done = await apply(edited, "", { says: true });
  expect(done.code, done.err).toBe(0);
  expect(await record()).toMatchObject({
    labels: { team: "ops" },
    policy: { reclaim: "RECLAIM_POLICY_RETAIN" },
    mutable_parameters: { iops: "8000" },
    secrets: { node_stage: { ref: "env:STORAGE_LOGIN" } },
    capacity: { actual_bytes: String(20 * 1024 * 1024) },
    capabilities: [{ access_mode: "ACCESS_MODE_SINGLE_NODE_WRITER" }],
  });
  expect((await apply(edited)).err).toBe("volume default/kept is as the file says\n");
  await apply(edited.replace("team: ops", "team: search").replace("retain", "delete"), " --yes");
  await golden("volume-apply", "volume apply data.yaml --id kept --yes", 0, { files: { "data.yaml": edited } });
  await apply(edited.replace("retain", "delete"), " --yes");
  expect((await run("volume delete kept")).code).toBe(0);
});

test.skipIf(!root)("volume delete, and again", async () => {
  await run("volume create data.yaml");
  const first = await run("volume delete data");
  expect([first.code, first.out]).toEqual([0, "default/data is gone\n"]);
  await golden("volume-delete", "volume delete data");
  await golden("volume-delete-unknown", "volume delete dta", 3);
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
