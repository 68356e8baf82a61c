// Makes packages/shared/src/gen from proto/ (buf and ts-proto). Skipped when nothing that it reads has changed.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { bin, cache, root } from "./paths.mjs";
import { Problem } from "./problem.mjs";
import { redactedFieldsModule } from "./redacted-fields.mjs";
import { runChild } from "./run-child.mjs";

const generated = "packages/shared/src/gen";

/** Generates into a directory of its own and swaps it in, so that no reader ever sees half of it. */
export async function generate({ env }) {
  const stamp = stampOfInputs();
  const target = path.join(root, generated);
  const stampFile = path.join(target, ".stamp");
  if (existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp) return;

  const work = path.join(cache, `generate-${process.pid}`);
  try {
    mkdirSync(work, { recursive: true });
    const exitCode = await runChild(path.join(bin, "buf"), ["generate", "--output", work], { env });
    if (exitCode !== 0) throw new Problem("buf generate failed; its own message stands above", exitCode);
    const made = path.join(work, generated);
    await describe(made, env);
    writeFileSync(path.join(made, ".stamp"), stamp);
    if (existsSync(target)) renameSync(target, path.join(work, "previous"));
    mkdirSync(path.dirname(target), { recursive: true });
    renameSync(made, target);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** What the running services need of the descriptors: all of them for reflection, and which fields to keep out of sight. */
async function describe(made, env) {
  const buf = path.join(bin, "buf");
  const json = path.join(made, "image.json");
  for (const output of [path.join(made, "image.binpb"), json]) {
    const exitCode = await runChild(buf, ["build", "--exclude-source-info", "-o", output], { env });
    if (exitCode !== 0) throw new Problem("buf build failed; its own message stands above", exitCode);
  }
  writeFileSync(path.join(made, "redacted-fields.ts"), redactedFieldsModule(JSON.parse(readFileSync(json, "utf8"))));
  rmSync(json);
}

function stampOfInputs() {
  const proto = path.join(root, "proto");
  if (!existsSync(proto)) throw new Problem("proto/ is missing: this tree is not whole");
  const protos = readdirSync(proto, { recursive: true }).filter((file) => file.endsWith(".proto"));
  const tools = [
    "buf.gen.yaml",
    "buf.yaml",
    "package-lock.json",
    "scripts/generate.mjs",
    "scripts/redacted-fields.mjs",
  ];
  const hash = createHash("sha256");
  for (const file of [...protos.map((file) => path.join("proto", file)), ...tools].sort()) {
    hash.update(`${file}\0`).update(readFileSync(path.join(root, file)));
  }
  return hash.digest("hex");
}
