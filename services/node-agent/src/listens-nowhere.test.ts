/** Agents are reached by nobody over a network: they dial, and only programs of their own host find a socket. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const serves = /\bcreateGrpcServer\b|\bcreateServer\b|\bServerCredentials\b|from "@grpc\/grpc-js"/;
/** The sockets of local programs: of runners, of dockerd and of Nomad. */
const local = ["host-volumes/post-server.ts", "local-server.ts"];

test("no file of the agent makes a server but those for programs of its own host", () => {
  const src = import.meta.dirname;
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.includes(`testing${path.sep}`),
  );
  expect(files).toEqual(expect.arrayContaining(["app.ts", ...local]));
  const servers = files.filter((file) => serves.test(readFileSync(path.join(src, file), "utf8")));
  expect(servers.sort()).toEqual(local);
});
