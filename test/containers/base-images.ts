/**
 * The images that the Dockerfile and the compose file begin with, made of Debian's packages and this repository's own Node, where no registry
 * of images is reached: what `node:26-slim` and `redis:8` hold, under their names.
 */
import { existsSync } from "node:fs";
import { copyFile, cp, mkdir, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { runToEnd } from "../support/run-go.ts";
import { type Engine, kept } from "./engine.ts";

const minute = 60_000;
const authorities = "/etc/ssl/certs/ca-certificates.crt";

/** As Debian's official image: what apt downloads and reckons out stays in no layer. */
const aptSettings = `DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
`;

const dockerfile = `FROM hf-debian AS node
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
RUN groupadd --gid 1000 node && useradd --uid 1000 --gid node --shell /bin/bash --create-home node \\
 && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm

FROM hf-debian AS redis
RUN apt-get update && apt-get install -y --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/* && mkdir -p /data
RUN printf '#!/bin/sh\\n[ "$1" = redis-server ] && set -- "$@" --protected-mode no\\nexec "$@"\\n' > /usr/local/bin/entry && chmod 755 /usr/local/bin/entry
VOLUME /data
WORKDIR /data
ENTRYPOINT ["entry"]
`;

/** Kept between runs: a minute of downloads. */
const debian = async (): Promise<string> => {
  const archive = path.join(kept, "bookworm.tar");
  if (existsSync(archive)) return archive;
  const tree = path.join(kept, "bookworm");
  await rm(tree, { recursive: true, force: true });
  await mkdir(kept, { recursive: true });
  const words = ["--variant=minbase", "--include=libatomic1", "bookworm", tree];
  const made = await runToEnd("nice", ["-n", "15", "debootstrap", ...words], 20 * minute);
  if (made.code !== 0) throw new Error(`debootstrap failed:\n${made.output}`);
  await rm(path.join(tree, "var/cache/apt"), { recursive: true, force: true });
  await rm(path.join(tree, "var/lib/apt/lists"), { recursive: true, force: true });
  await mkdir(path.join(tree, "var/cache/apt/archives/partial"), { recursive: true });
  await mkdir(path.join(tree, "var/lib/apt/lists/partial"), { recursive: true });
  await writeFile(path.join(tree, "etc/apt/apt.conf.d/docker-clean"), aptSettings);
  const packed = await runToEnd("tar", ["-C", tree, "--numeric-owner", "-cf", `${archive}.new`, "."], 5 * minute);
  if (packed.code !== 0) throw new Error(packed.output);
  await rename(`${archive}.new`, archive);
  await rm(tree, { recursive: true, force: true });
  return archive;
};

/** The machine's own authorities, where it has any beside Debian's, and npm's word for them: as the head of the Dockerfile says. */
export const buildSecrets = async (dir: string): Promise<readonly string[]> => {
  if (!existsSync(authorities)) return [];
  const npmrc = path.join(dir, "npmrc");
  await writeFile(npmrc, "cafile=/run/secrets/ca\n");
  return ["--secret", `id=npmrc,src=${npmrc}`, "--secret", `id=ca,src=${authorities}`];
};

export const makeBaseImages = async ({ docker }: Engine, dir: string): Promise<void> => {
  // Imported once: an image that is imported anew is another one, and all that is built on it is built again.
  if ((await docker(["images", "-q", "hf-debian"])) === "") await docker(["import", await debian(), "hf-debian"]);
  const context = path.join(dir, "base");
  const { stdout } = await runToEnd("sh", ["-c", 'realpath "$(command -v npm)"'], minute);
  const npm = path.resolve(stdout.trim(), "../..");
  await mkdir(context, { recursive: true });
  await copyFile(process.execPath, path.join(context, "node"));
  await cp(npm, path.join(context, "npm"), { recursive: true });
  await writeFile(path.join(context, "Dockerfile"), dockerfile);
  for (const [target, name] of [
    ["node", "node:26-slim"],
    ["redis", "redis:8"],
  ] as const)
    await docker(["build", "--network", "host", "-q", "--target", target, "-t", name, context]);
};
