import { randomUUID } from "node:crypto";
import { existsSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import path from "node:path";

/** Of every agent of a test, wherever the test runs: not on the root file system, which a container has from its image. */
export const machineIdFile = (): string => {
  const dir = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
  const file = path.join(dir, `holdfast-test-machine-id-${userInfo().uid}`);
  if (!existsSync(file)) {
    const made = `${file}.${randomUUID()}`;
    writeFileSync(made, "5f0c1d2e3b4a59687766554433221100\n", { mode: 0o644 });
    renameSync(made, file);
  }
  return file;
};
