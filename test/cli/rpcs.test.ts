/**
 * What the API can do a person can do from the command line: each RPC of it is called by a command of the table, or stands below with the
 * reason why none calls it.
 */
import path from "node:path";
import { describe, expect, test } from "vitest";
import { listFiles, readText } from "../support/architecture-source.ts";
import { everyRow } from "../support/every-row.ts";

const root = path.resolve(import.meta.dirname, "../..");

/** No command calls these, for the reason said. Whoever adds a row answers for it in review. */
const withoutCommand: Readonly<Record<string, string>> = {
  "TrustService/Enrol": "`agent enrol` asks for it over a connection that is checked by a pin",
  "TrustService/Renew": "agents ask for it themselves",
  "ClaimService/WatchClaims":
    "for programs that follow; a person follows with `events -f`, or waits with the command that started it",
  "NodeService/WatchNodes": "as WatchClaims",
  "PluginService/WatchPlugins": "as WatchClaims",
  "NodeService/WatchDrain": "for programs that follow; `node drain` waits by asking again and shows the same",
  "SnapshotService/GetMetadataAllocated":
    "a stream of block ranges for backup tools; nothing in it is for people to read",
  "SnapshotService/GetMetadataDelta": "as GetMetadataAllocated",
};

/** The name of each client in frame/clients.ts by its service. */
const clientOf: Readonly<Record<string, string>> = Object.fromEntries(
  [...readText(root, "packages/cli/src/frame/clients.ts").matchAll(/(\w+): client\([^;]*?\.(\w+)Definition/g)].map(
    ([, client = "", service = ""]) => [service, client],
  ),
);

const rpcs = listFiles(root, "proto/holdfast/v1", /\.proto$/).flatMap((file) => {
  const text = readText(root, file).replace(/\/\/.*$/gm, "");
  return [...text.matchAll(/^service (\w+) \{([\s\S]*?)^\}/gm)].flatMap(([, service = "", body = ""]) =>
    [...body.matchAll(/\brpc (\w+)\(/g)].map(([, rpc = ""]) => ({ service, rpc })),
  );
});

const sources = listFiles(root, "packages/cli/src/commands", /\.ts$/)
  .filter((file) => !file.endsWith(".test.ts"))
  .map((file) => readText(root, file))
  .join("\n");

const isCalled = ({ service, rpc }: { readonly service: string; readonly rpc: string }): boolean => {
  const method = `${rpc.charAt(0).toLowerCase()}${rpc.slice(1)}`;
  return new RegExp(`\\bclients\\.${clientOf[service]}\\.${method}\\(`).test(sources);
};

describe("every RPC of the public API", () => {
  test("is known, with the client of its service", () => {
    expect(rpcs.length).toBeGreaterThan(60);
    expect(rpcs.filter(({ service }) => clientOf[service] === undefined)).toEqual([]);
  });

  const nameOf = ({ service, rpc }: (typeof rpcs)[number]) => `${service}/${rpc}`;
  const hasOne = (row: (typeof rpcs)[number]) =>
    expect(isCalled(row) ? "has a command" : (withoutCommand[nameOf(row)] ?? "has none")).not.toBe("has none");
  test("has a command, or the reason why none calls it", () => everyRow(rpcs, nameOf, hasOne));

  test("that stands without a command exists, and has none", () => {
    const names = new Map(rpcs.map((row) => [`${row.service}/${row.rpc}`, row]));
    for (const name of Object.keys(withoutCommand)) {
      const row = names.get(name);
      expect(row, name).toBeDefined();
      expect(row !== undefined && isCalled(row), `${name} has a command by now`).toBe(false);
    }
  });
});
