/**
 * A hung file system hangs whoever touches it. So none of the agent's own calls may lead to a path that a volume covers: what
 * reads or changes files, or starts processes, is in a few files that were looked at for that.
 */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const root = path.resolve(import.meta.dirname, "..");

const reviewed: Readonly<Record<string, string>> = {
  "doctor/examine-host.ts": "/proc, the search path and the root directory itself; in a process of its own (`check`)",
  "doctor/examine-journal.ts": "the journal, read; in a process of its own (`check`)",
  "docker/daemon-life.ts": "the pid file of dockerd",
  "docker/docker-templates.ts": "the file that HOLDFAST_DOCKER_TEMPLATES names",
  "host-volumes/post-server.ts": "the agent's own sockets for programs of this host, such as dockerd",
  "host-identity.ts": "/etc/machine-id and the boot id",
  "host-proof.ts": "the DMI, and the file or program that HOLDFAST_HOST_IDENTITY names, at the start",
  "link-certificates.ts": "the file with the token of an enrolment, at the start",
  "local-server.ts": "the agent's own socket",
  "plugins/host/socket-dirs.ts": "directories of plugin sockets",
  "plugins/host/static-plugins.ts": "the list of static plugins",
  "volumes/durable-files.ts": "the state directory",
  "volumes/host-dirs.ts": "parents of mount points, and names in them without following; rules H1 to H3",
  "volumes/host-view.ts": "links below /proc",
  "volumes/journal-writer.ts": "the journal",
  "volumes/journal.ts": "the journal",
  "volumes/kernel-threads.ts": "/proc",
  "volumes/killable-children.ts": "starts the children that may touch a volume, and kills them",
  "volumes/mount-holders.ts": "names and links below /proc",
  "volumes/mount-table.ts": "/proc",
  "volumes/opened-or-gone.ts": "/proc",
  "volumes/process-links.ts": "names and links below /proc",
};

const filesAndProcesses = /from "node:(fs|fs\/promises|child_process|worker_threads|dgram|vm)"/;

test("only reviewed files touch the file system or start processes", () => {
  const found = readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.startsWith("testing/"))
    .filter((file) => filesAndProcesses.test(readFileSync(path.join(root, file), "utf8")));
  expect(found.sort()).toEqual(Object.keys(reviewed).sort());
});

test("what looks at names in a mount point's parent never follows one", () => {
  const text = readFileSync(path.join(root, "volumes/host-dirs.ts"), "utf8");
  const calls = [...text.matchAll(/\b(statSync|stat|open|opendir|readdir|access|realpath|readlink)\(/g)].map(
    ([, it]) => it,
  );
  // Of a device node in devtmpfs, by its name.
  expect(calls).toEqual(["stat"]);
});
