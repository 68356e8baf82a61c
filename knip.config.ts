import type { KnipConfig } from "knip";

const config: KnipConfig = {
  // The packages export every file of src/, so every file is an entry: without this nothing unused would ever be found.
  includeEntryExports: true,
  ignoreExportsUsedInFile: true,
  workspaces: {
    ".": {
      entry: [
        "scripts/run.mjs",
        "scripts/api-baseline.mjs",
        "scripts/bundle.mjs",
        "scripts/release.mjs",
        "scripts/docs/main.ts",
        "test/**/*.test.ts",
        "test/harness/fuse-daemon.ts",
        "test/fixtures/make-fixtures.ts",
        "test/model/main.ts",
        "bench/main.ts",
        "bench/scale-main.ts",
        "bench/fleet-main.ts",
        "bench/transfers-main.ts",
        "bench/store-main.ts",
        "bench/floor/*-main.ts",
        "demo/main.ts",
        "examples/toy-scheduler-main.ts",
      ],
      project: ["scripts/**/*.{mjs,ts}", "{test,bench,demo,examples}/**/*.ts"],
      // Run by path from scripts/ and buf.gen.yaml, imported by nothing.
      ignoreDependencies: ["@biomejs/biome", "@bufbuild/buf", "ts-proto"],
      // Programs of the system; scripts/system-needs.mjs sees to them.
      ignoreBinaries: [
        "debootstrap",
        "flock",
        "ip",
        "losetup",
        "mkfifo",
        "mount",
        "nsenter",
        "prlimit",
        "setpriv",
        "systemd-analyze",
        "umount",
        "unshare",
      ],
    },
    "packages/shared": {
      project: ["src/**/*.ts", "!src/gen/**"],
      ignoreBinaries: ["flock", "openssl"],
    },
    "packages/*": { project: ["src/**/*.ts", "!src/gen/**"] },
    "packages/local-driver": { project: ["src/**/*.ts"], ignoreBinaries: ["mount"] },
    "services/*": { project: ["src/**/*.ts"] },
    "services/controller": { project: ["src/**/*.ts"], ignoreBinaries: ["mount"] },
  },
};

export default config;
