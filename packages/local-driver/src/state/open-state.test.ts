import { spawnSync } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect, onTestFinished, test } from "vitest";
import { createMounts } from "../host/mounts.ts";
import { createRunTool } from "../host/run-tool.ts";
import { groupRecord, snapshotRecord, volumeRecord } from "../testing/state-on-disk.ts";
import { openState } from "./open-state.ts";
import { takeStateDir } from "./state-dir.ts";

const root = process.getuid?.() === 0;

async function freshDir(): Promise<string> {
  const dir = await realpath(await mkdtemp(path.join(tmpdir(), "hf-state-")));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** A life of the state on the real disk, as app.ts puts it together. */
async function open(dir: string) {
  const log = createMemoryLogger();
  const stateDir = await takeStateDir(dir);
  const run = createRunTool({ stateDir: stateDir.path, nodeId: "n1" });
  const mounts = createMounts({ run, stateDir: stateDir.path });
  try {
    const state = await openState({ stateDir, run, mounts, log, signal: new AbortController().signal });
    let closed = false;
    const close = async () => {
      if (closed) return;
      closed = true;
      await state.close();
      stateDir.release();
    };
    onTestFinished(close);
    return { ...state, close, log, path: stateDir.path };
  } catch (error) {
    stateDir.release();
    throw error;
  }
}

const withData = async ({ data }: { readonly data: string }) => {
  await mkdir(data, { mode: 0o755 });
  await writeFile(path.join(data, "file"), "contents");
};
const withImage = ({ image }: { readonly image: string }) => writeFile(image, "contents");

const modeOf = async (place: string) => ((await lstat(place)).mode & 0o777).toString(8);

async function under(dir: string): Promise<string[]> {
  return (await readdir(dir, { recursive: true })).sort();
}

test("records of every kind come back after a restart, with their contents", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  const volume = volumeRecord("v1", "data", { type: "directory" });
  await first.volumes.add(volume, withData);
  await first.volumes.change("v1", (record) => ({ ...record, mutable: { "label.a": "b" } }));
  await first.snapshots.add(snapshotRecord("s1", "snap"), withImage);
  await first.groups.add(groupRecord("g1", "group"), async () => undefined);
  await first.close();
  const { volumes, snapshots, groups, broken } = await open(dir);
  expect(volumes.all()).toEqual([{ ...volume, mutable: { "label.a": "b" } }]);
  expect(volumes.byName("data")).toBe(volumes.get("v1"));
  expect(snapshots.all()).toEqual([snapshotRecord("s1", "snap")]);
  expect(groups.all()).toEqual([groupRecord("g1", "group")]);
  expect(broken).toEqual([]);
  expect(await readFile(path.join(volumes.paths("v1").data, "file"), "utf8")).toBe("contents");
  expect(await readFile(snapshots.paths("s1").image, "utf8")).toBe("contents");
});

test("nobody else gets in: directories 0700, files 0600, whatever the umask is", async () => {
  const before = process.umask(0);
  onTestFinished(() => void process.umask(before));
  const dir = path.join(await freshDir(), "a", "b");
  const { volumes } = await open(dir);
  await volumes.add(volumeRecord("v1", "data", { type: "directory" }), withData);
  const places = ["", "volumes", "snapshots", "groups", "making", "trash", "volumes/v1"];
  for (const place of places) expect([place, await modeOf(path.join(dir, place))]).toEqual([place, "700"]);
  const files = ["format.json", "lock", "volumes/v1/record.json"];
  for (const file of files) expect([file, await modeOf(path.join(dir, file))]).toEqual([file, "600"]);
  // Its root is the workload's, and as it was made.
  expect(await modeOf(path.join(dir, "volumes/v1/data"))).toBe("755");
});

test("a directory that was open to others is closed to them", async () => {
  const dir = await freshDir();
  await chmod(dir, 0o755);
  await open(dir);
  expect(await modeOf(dir)).toBe("700");
});

test("the directory is known by the kernel's spelling, not by a link to it", async () => {
  const dir = await freshDir();
  const link = path.join(await freshDir(), "link");
  await symlink(dir, link);
  const state = await open(link);
  expect(state.path).toBe(dir);
  expect(state.volumes.paths("v1")).toEqual({ data: `${dir}/volumes/v1/data`, image: `${dir}/volumes/v1/image` });
  await expect(open(dir)).rejects.toThrow(
    `another driver (pid ${process.pid}) runs on the state directory ${dir}: stop it first`,
  );
});

test.each<[string, Record<string, string>, RegExp]>([
  ["with somebody's files", { "photo.jpg": "x" }, /has no format\.json and is not empty \(photo\.jpg\): restore/],
  ["whose format.json is gone", { "volumes/v1/record.json": "{}" }, /has no format\.json and is not empty \(volumes\)/],
  ["of a newer layout", { "format.json": '{"layout":2}' }, /format\.json says layout 2, and this driver knows 1: run/],
  ["with an empty format.json", { "format.json": "" }, /format\.json cannot be read: run/],
  ["with a foreign format.json", { "format.json": '{"layout":"1"}' }, /format\.json cannot be read/],
])("a directory %s is refused, and stays as it is", async (_what, files, reason) => {
  const dir = await freshDir();
  await chmod(dir, 0o755);
  for (const [file, text] of Object.entries(files)) {
    await mkdir(path.join(dir, path.dirname(file)), { recursive: true });
    await writeFile(path.join(dir, file), text);
  }
  const before = await under(dir);
  await expect(open(dir)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(reason),
  });
  expect(await under(dir)).toEqual(before);
  expect(await modeOf(dir)).toBe("755");
});

test("a fresh filesystem, and what a first start that was killed left, is as good as empty", async () => {
  const dir = await freshDir();
  for (const place of ["lost+found", "volumes", "trash"]) await mkdir(path.join(dir, place));
  await writeFile(path.join(dir, "format.json.new"), '{"lay');
  const { volumes } = await open(dir);
  await volumes.add(volumeRecord("v1", "data"), withImage);
  expect(await readFile(path.join(dir, "format.json"), "utf8")).toBe('{"layout":1}\n');
});

test.skipIf(!root)("another user's directory is refused", async () => {
  const dir = await freshDir();
  spawnSync("chown", ["1234", dir]);
  await expect(open(dir)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringMatching(/belongs to user 1234.*chown it to user 0/),
  });
});

test("what a killed life left half-made or half-deleted is gone before the first call, and told", async () => {
  const dir = await freshDir();
  await (await open(dir)).close();
  const outside = await freshDir();
  await writeFile(path.join(outside, "keep"), "");
  await mkdir(path.join(dir, "making/v1/data/deep/er"), { recursive: true });
  await symlink(outside, path.join(dir, "making/v1/data/link"));
  await mkdir(path.join(dir, "trash/v2.0/data"), { recursive: true });
  await writeFile(path.join(dir, "trash/v2.0/data/file"), "x");
  await writeFile(path.join(dir, "trash/stray"), "x");
  const { log } = await open(dir);
  expect([await under(path.join(dir, "making")), await under(path.join(dir, "trash"))]).toEqual([[], []]);
  expect(await readdir(outside)).toEqual(["keep"]);
  const told = log.lines.map(({ message, fields }) => [
    message,
    fields["directory"],
    fields["entries"] ?? fields["left"],
  ]);
  expect(told).toEqual([
    ["deleting what an earlier life left", path.join(dir, "making"), 1],
    ["deleted what an earlier life left", path.join(dir, "making"), 0],
    ["deleting what an earlier life left", path.join(dir, "trash"), 2],
    ["deleted what an earlier life left", path.join(dir, "trash"), 0],
  ]);
});

test("a removed volume is gone at once, and its contents a little later, however deep", async () => {
  const dir = await freshDir();
  const { volumes, settled } = await open(dir);
  await volumes.add(volumeRecord("v1", "data", { type: "directory" }), async ({ data }) => {
    await mkdir(path.join(data, "a/b/c"), { recursive: true });
    await writeFile(path.join(data, "a/b/c/file"), "x");
  });
  await volumes.remove("v1");
  expect(volumes.get("v1")).toBeUndefined();
  expect(await readdir(path.join(dir, "volumes"))).toEqual([]);
  await volumes.remove("v1");
  await settled();
  expect(await readdir(path.join(dir, "trash"))).toEqual([]);
  // The name is free, and so is the id.
  await volumes.add(volumeRecord("v1", "data"), withImage);
  await volumes.remove("v1");
  await settled();
  expect(await readdir(path.join(dir, "trash"))).toEqual([]);
});

test.skipIf(!root)("what is mounted below something to be deleted is never descended", async () => {
  const dir = await freshDir();
  const others = await freshDir();
  await writeFile(path.join(others, "precious"), "x");
  const mount = async (target: string) => {
    await mkdir(target, { recursive: true });
    expect(spawnSync("mount", ["--bind", others, target]).status).toBe(0);
    onTestFinished(() => void spawnSync("umount", ["-l", target]));
  };
  await (await open(dir)).close();
  const half = path.join(dir, "making/v0/data/mnt");
  await mount(half);
  const second = await open(dir);
  const mounted = path.join(dir, "volumes/v1/data/mnt");
  await second.volumes.add(volumeRecord("v1", "data", { type: "directory" }), withData);
  await mount(mounted);
  await second.volumes.remove("v1");
  await second.settled();
  const inTrash = path.join(dir, "trash/v1.0/data/mnt");
  expect(await readdir(half)).toEqual(["precious"]);
  expect(await readdir(inTrash)).toEqual(["precious"]);
  const warned = second.log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields);
  expect(warned).toEqual([
    { directory: path.join(dir, "making/v0"), mounted: [half] },
    { directory: path.join(dir, "trash/v1.0"), mounted: [inTrash] },
  ]);
  expect(second.log.lines).toContainEqual(
    expect.objectContaining({ message: expect.stringMatching(/^left as it is, since something is mounted in it/) }),
  );
  await second.close();
  for (const place of [half, inTrash]) expect(spawnSync("umount", [place]).status).toBe(0);
  await open(dir);
  expect([await readdir(path.join(dir, "making")), await readdir(path.join(dir, "trash"))]).toEqual([[], []]);
  expect(await readdir(others)).toEqual(["precious"]);
});

test.skipIf(!root)("parts of it on another mount are refused, since nothing can be renamed across", async () => {
  const dir = await freshDir();
  await (await open(dir)).close();
  const place = path.join(dir, "volumes");
  expect(spawnSync("mount", ["--bind", await freshDir(), place]).status).toBe(0);
  onTestFinished(() => void spawnSync("umount", ["-l", place]));
  await expect(open(dir)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringContaining(`something is mounted at ${place}: all of ${dir} has to be one filesystem`),
  });
});

test.skipIf(!root)(
  "a full disk: the record stays as it was, nothing half-written is left, and the filesystem is named",
  async () => {
    const dir = await freshDir();
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=256k,mode=0700", "full-disk", dir]).status).toBe(0);
    onTestFinished(() => void spawnSync("umount", ["-l", dir]));
    const first = await open(dir);
    await first.volumes.add(volumeRecord("v1", "data"), withImage);
    const before = await readFile(path.join(dir, "volumes/v1/record.json"));
    const filler = path.join(dir, "filler");
    await writeFile(filler, Buffer.alloc(1 << 20)).catch((error: NodeJS.ErrnoException) =>
      expect(error.code).toBe("ENOSPC"),
    );

    const label = (text: string) => first.volumes.change("v1", (record) => ({ ...record, mutable: { text } }));
    await expect(label("x")).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringContaining(
        `cannot store the record of volume v1 ("data") in ${dir}/volumes/v1 (filesystem full-disk, tmpfs, mounted at ${dir}): ENOSPC`,
      ),
    });
    await expect(first.volumes.add(volumeRecord("v2", "more"), withImage)).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
    });
    expect(first.volumes.get("v1")?.mutable).toEqual({});
    expect(first.volumes.byName("more")).toBeUndefined();
    expect(await readFile(path.join(dir, "volumes/v1/record.json"))).toEqual(before);
    expect((await readdir(path.join(dir, "volumes/v1"))).filter((name) => name.endsWith(".new"))).toEqual([]);
    expect([await readdir(path.join(dir, "making")), await readdir(path.join(dir, "volumes"))]).toEqual([[], ["v1"]]);
    await first.close();

    // It starts on the full disk, and room is made by deleting.
    const second = await open(dir);
    expect(second.volumes.get("v1")?.name).toBe("data");
    await rm(filler);
    await second.volumes.change("v1", (record) => ({ ...record, mutable: { text: "y" } }));
    await second.volumes.remove("v1");
    await second.settled();
    expect(await readdir(path.join(dir, "trash"))).toEqual([]);
  },
);

test("a broken record is refused by id and by its name alone, everything else goes on, and nothing of it is touched", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  await first.volumes.add(volumeRecord("v1", "one"), withImage);
  await first.volumes.add(volumeRecord("v2", "two"), withImage);
  await first.close();
  const file = path.join(dir, "volumes/v1/record.json");
  await truncate(file, 100);
  await writeFile(path.join(dir, "volumes/v1/record.json.new"), "half");
  const before = await readFile(file);

  const { volumes, broken, log, settled } = await open(dir);
  const reason = `it is cut off, or was never a record: it is no JSON; put back a good copy of the file, or move ${dir}/volumes/v1 out of the state directory to give it up; then restart the driver (nothing of it was touched)`;
  expect(broken).toEqual([{ kind: "volume", id: "v1", file, reason }]);
  expect(log.lines.filter(({ level }) => level === "error").map(({ fields }) => fields)).toEqual(broken);
  const refused = (message: string) => ({ code: "FAILED_PRECONDITION", message });
  const thrown = (read: () => unknown) => {
    try {
      return read();
    } catch (error) {
      return error;
    }
  };
  expect(thrown(() => volumes.get("v1"))).toMatchObject(refused(`volume v1: ${file}: ${reason}`));
  expect(thrown(() => volumes.byName("one"))).toMatchObject(
    refused(`volume v1 bears the name "one": ${file}: ${reason}`),
  );
  await expect(volumes.add(volumeRecord("v3", "one"), withImage)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
  });
  await expect(volumes.add(volumeRecord("v1", "three"), withImage)).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
  });
  await expect(volumes.change("v1", (record) => record)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  await expect(volumes.remove("v1")).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });

  expect(volumes.all().map(({ id }) => id)).toEqual(["v2"]);
  expect(volumes.byName("three")).toBeUndefined();
  await volumes.add(volumeRecord("v3", "three"), withImage);
  await volumes.remove("v2");
  await settled();
  expect(await readFile(file)).toEqual(before);
  expect(await readFile(path.join(dir, "volumes/v1/image"), "utf8")).toBe("contents");
  expect(await readFile(path.join(dir, "volumes/v1/record.json.new"), "utf8")).toBe("half");
});

test("without its mark a broken record may bear any name: no new one is taken, those that are known are served", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  await first.volumes.add(volumeRecord("v1", "one"), withImage);
  await first.volumes.add(volumeRecord("v2", "two"), withImage);
  await first.close();
  const place = path.join(dir, "volumes/v1");
  const mark = (await readdir(place)).find((name) => name.startsWith("name-")) ?? "";
  await rm(path.join(place, mark));
  await rm(path.join(place, "record.json"));

  const { volumes, snapshots, broken } = await open(dir);
  expect(broken).toMatchObject([{ id: "v1", reason: expect.stringMatching(/^it is missing; put back/) }]);
  expect(() => volumes.byName("new")).toThrow(/volume v1 may bear the name "new": .*record\.json: it is missing/);
  await expect(volumes.add(volumeRecord("v3", "new"), withImage)).rejects.toThrow(/may bear the name "new"/);
  expect(volumes.byName("two")?.id).toBe("v2");
  // Snapshots have names of their own.
  await snapshots.add(snapshotRecord("s1", "new"), withImage);
});

test("a copy of a volume's directory, a link in place of one, and stray files harm nothing", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  await first.volumes.add(volumeRecord("v1", "one"), withImage);
  await first.close();
  const volumesDir = path.join(dir, "volumes");
  spawnSync("cp", ["-a", path.join(volumesDir, "v1"), path.join(volumesDir, "v1.bak")]);
  await symlink("/nowhere", path.join(volumesDir, "v2"));
  await writeFile(path.join(volumesDir, "notes.txt"), "x");
  await mkdir(path.join(volumesDir, "lost+found"));
  const { volumes, broken, log } = await open(dir);
  expect(broken.map(({ id, reason }) => [id, reason.split(";")[0]])).toEqual([
    ["v1.bak", "it is the record of v1, and its directory is named v1.bak"],
    ["v2", `${volumesDir}/v2 is a symbolic link, which the driver does not follow`],
  ]);
  expect(volumes.byName("one")?.id).toBe("v1");
  expect(log.lines).toContainEqual(
    expect.objectContaining({ level: "warn", message: "not of the driver's making: ignored" }),
  );
  expect((await readdir(volumesDir)).sort()).toEqual(["lost+found", "notes.txt", "v1", "v1.bak", "v2"]);
});

test("200 volumes, made at once, are all there after a restart", async () => {
  const dir = await freshDir();
  const first = await open(dir);
  const records = Array.from({ length: 200 }, (_, at) => volumeRecord(`v${1000 + at}`, `name ${at}`));
  await Promise.all(records.map((record) => first.volumes.add(record, async () => undefined)));
  await first.close();
  const began = performance.now();
  const { volumes } = await open(dir);
  console.log(`200 volumes loaded in ${Math.round(performance.now() - began)} ms`);
  expect(volumes.all()).toEqual(records);
});
