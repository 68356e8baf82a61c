/** csi-driver-host-path, built once from the archive that CI keeps beside the project. */
import { existsSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { root, runToEnd } from "./run-go.ts";

const version = "1.18.0";
const archive = path.join(
  process.env["HOLDFAST_PEERS"] ?? path.resolve(root, "../shared/peers"),
  `csi-driver-host-path-${version}.tar.xz`,
);

/** Why it cannot be built here; empty when it can. */
export const hostPathMissing = async (): Promise<string> => {
  if (!existsSync(archive)) return `${archive} is not there; HOLDFAST_PEERS names its folder`;
  const go = await runToEnd("go", ["version"], 10_000).catch(() => undefined);
  return go?.code === 0 ? "" : "Go is not there to build it";
};

const binary = path.join(root, ".cache", `host-path-${version}`);

export const hostPathBuilt = (): boolean => existsSync(binary);

/** About a minute the first time. A build that is cut leaves no program behind. */
export const buildHostPath = async (): Promise<string> => {
  if (hostPathBuilt()) return binary;
  const sources = path.join(root, ".cache", `host-path-sources-${process.pid}`);
  await mkdir(sources, { recursive: true });
  try {
    const made = `${binary}-${process.pid}`;
    const steps = [
      ["tar", "-xJf", archive, "-C", sources, "--strip-components=1"],
      [
        ...["env", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=-mod=vendor -buildvcs=false"],
        ...[
          "go",
          "build",
          "-C",
          sources,
          // Neither inlined nor with tables for debuggers: a third less to build.
          "-gcflags=all=-l",
          "-ldflags",
          `-s -w -X main.version=v${version}`,
          "-o",
          made,
          "./cmd/hostpathplugin",
        ],
      ],
    ] as const;
    for (const [command, ...args] of steps) {
      const { code, output } = await runToEnd(command, args, 600_000);
      if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${output}`);
    }
    await rename(made, binary);
    return binary;
  } finally {
    await rm(sources, { recursive: true, force: true });
  }
};
