import path from "node:path";
import { defineConfig } from "vitest/config";
import { mutantPlugin } from "./test/mutants/mutant-plugin.ts";

const full = process.env["HOLDFAST_FULL"] === "1";

const mutant = process.env["HOLDFAST_MUTANT"];

export default defineConfig({
  plugins: mutant === undefined ? [] : [mutantPlugin(mutant, import.meta.dirname)],
  test: {
    // Programs that scripts/system-needs.mjs fetched, so that `npx vitest run <file>` finds them too.
    env: {
      PATH: [path.resolve(".cache/bin"), process.env["PATH"]].join(path.delimiter),
      // Node strips and compiles each module once for all the processes that tests start: 0.5 s of CPU a start, not 1.2 s.
      NODE_COMPILE_CACHE: path.resolve(".cache/compiled"),
    },
    testTimeout: full ? 600_000 : 90_000,
    hookTimeout: 120_000,
    // The second that vitest gives is over before a busy machine has started a process.
    expect: { poll: { timeout: 20_000 } },
    // Processes, not threads: tests mount, change umask and hold sockets.
    pool: "forks",
    // Half of the time of unit tests, and a seventh of that of the others, was the loading of modules: files share them.
    isolate: false,
    setupFiles: ["scripts/cpu-of-test-files.mjs", "test/support/seeded-properties.ts"],
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: {
          name: "parts",
          include: ["packages/*/src/**/*.test.ts", "services/*/src/**/*.test.ts"],
        },
      },
      {
        extends: true,
        test: {
          name: "whole",
          include: ["test/**/*.test.ts"],
          // The full figures take an hour; `npm test` runs a seeded sample of them from the other files.
          exclude: full ? [] : ["test/full/**"],
        },
      },
    ],
  },
});
