// Makes packages/shared/src/gen from proto/ (buf + ts-proto). Skipped when nothing that it reads has changed.
import { createHash } from "node:crypto";
import { spawnSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const out = path.join(root, "packages/shared/src/gen");
const stampFile = path.join(out, ".stamp");
const inputs = [...globSync("proto/**/*.proto", { cwd: root }), "buf.gen.yaml", "buf.yaml", "package-lock.json"].sort();
const hash = createHash("sha256");
for (const file of inputs) if (existsSync(path.join(root, file))) hash.update(file).update(readFileSync(path.join(root, file)));
const stamp = hash.digest("hex");
if (!existsSync(stampFile) || readFileSync(stampFile, "utf8") !== stamp) {
  const bin = path.join(root, "node_modules/.bin");
  const run = spawnSync(path.join(bin, "buf"), ["generate"], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
  });
  if (run.status !== 0) process.exit(run.status ?? 1);
  mkdirSync(out, { recursive: true });
  writeFileSync(stampFile, stamp);
}
