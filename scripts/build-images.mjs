// `npm run build-images` builds each image that the compose file starts, under the name that it has there. Options go to `docker build`:
// `npm run build-images -- --platform linux/arm64` builds them for the other kind of machine.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "..");
const stages = readFileSync(path.join(root, "Dockerfile"), "utf8").matchAll(/^FROM runtime AS (\S+)$/gm);

for (const [, target] of stages) {
  const name = `holdfast-${target}`;
  const words = ["build", ...process.argv.slice(2), "--target", target, "--tag", name, root];
  const env = { ...process.env, DOCKER_BUILDKIT: "1" };
  const { status, error } = spawnSync("docker", words, { stdio: "inherit", env });
  if (status !== 0) {
    console.error(`${name} was not built: docker ${words.join(" ")} ended with ${error?.message ?? status}`);
    process.exit(1);
  }
  console.log(name);
}
