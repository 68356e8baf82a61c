/** What no options name is taken from here: connections to Redis, to Vault, to a fencer. */
import path from "node:path";
import { expect, test } from "vitest";
import { readText } from "../support/architecture-source.ts";

const root = path.resolve(import.meta.dirname, "../..");

test.each([
  "services/controller/src/serve-main.ts",
  "services/node-agent/src/serve-main.ts",
  "packages/cli/src/main.ts",
])("%s speaks no older TLS than 1.3, whatever is connected to", (file) => {
  const text = readText(root, file);
  expect(text).toContain('\ntls.DEFAULT_MIN_VERSION = "TLSv1.3";\n');
});
