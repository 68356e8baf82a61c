import { readFileSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFencer } from "./fencer.ts";

const life = { node: "node-a", machineId: "m1", bootId: "b1", nodeEpoch: 3 };
const told = { node: "node-a", machine_id: "m1", boot_id: "b1", node_epoch: 3 };
const isThere = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};
const { signal } = new AbortController();
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "hf-fencer-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

describe("a program", () => {
  const run = async (script: string, timeoutMs = 10_000) => {
    const file = path.join(dir, "fencer");
    await writeFile(file, `#!/bin/sh\n${script}\n`);
    await chmod(file, 0o755);
    return await createFencer({ target: file, timeoutMs }).ask(life, signal);
  };

  it("is told the node and its life on its input, without this process's environment", async () => {
    process.env["HOLDFAST_CANARY"] = "canary-env";
    const answer = await run(`cat >${dir}/input; env >${dir}/env; echo '{"fenced": true, "evidence": "PDU 3 is off"}'`);
    delete process.env["HOLDFAST_CANARY"];
    expect(answer).toEqual({ kind: "fenced", evidence: "PDU 3 is off" });
    expect(JSON.parse(await readFile(path.join(dir, "input"), "utf8"))).toEqual(told);
    expect(await readFile(path.join(dir, "env"), "utf8")).not.toContain("canary-env");
  });

  it.each([
    [
      "that failed, whatever it printed",
      `echo '{"fenced": true, "evidence": "x"}'; echo broken >&2; exit 3`,
      /ended with 3: broken/,
    ],
    ["that says no", `echo '{"fenced": false, "evidence": "the PDU does not answer"}'`, /^the PDU does not answer$/],
    ["with a word like yes", `echo '{"fenced": "true", "evidence": "x"}'`, /^x$/],
    ["without evidence", `echo '{"fenced": true}'`, /gave no evidence/],
    ["with evidence of blanks", `echo '{"fenced": true, "evidence": " "}'`, /gave no evidence/],
    ["that says nothing", "true", /no JSON/],
    ["that prints something else", "echo off", /no JSON: off/],
    ["that prints without end", "yes", /no answer in time/],
  ])("%s is no evidence", async (_what, script, why) =>
    expect(await run(script, 500)).toMatchObject({ kind: "failed", why: expect.stringMatching(why) }),
  );

  it("that is silent is ended, and no evidence", async () => {
    const answer = await run(`echo $$ >${dir}/pid; exec sleep 100`, 300);
    expect(answer).toEqual({ kind: "failed", why: "no answer in time" });
    const pid = Number(await readFile(path.join(dir, "pid"), "utf8"));
    await expect.poll(() => isThere(pid)).toBe(false);
  });

  it("that is not there is no evidence", async () => {
    const answer = await createFencer({ target: path.join(dir, "none"), timeoutMs: 1_000 }).ask(life, signal);
    expect(answer).toMatchObject({ kind: "failed", why: expect.stringContaining("cannot be run") });
  });
});

describe("a service", () => {
  let server: Server;
  let target: string;
  let seen: unknown;
  let answer: (request: IncomingMessage, response: ServerResponse) => void;
  beforeAll(async () => {
    server = createServer(async (request, response) => {
      let text = "";
      for await (const part of request) text += String(part);
      seen = text === "" ? undefined : JSON.parse(text);
      answer(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    target = `http://127.0.0.1:${(server.address() as AddressInfo).port}/fence`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const yes = '{"fenced": true, "evidence": "the vm is destroyed"}';
  const ask = (timeoutMs = 5_000) => createFencer({ target, timeoutMs }).ask(life, signal);

  it("is told the same", async () => {
    answer = (_request, response) => void response.end(yes);
    expect(await ask()).toEqual({ kind: "fenced", evidence: "the vm is destroyed" });
    expect(seen).toEqual(told);
  });

  it("that answers with another status is no evidence", async () => {
    answer = (_request, response) => void response.writeHead(202).end(yes);
    expect(await ask()).toMatchObject({ kind: "failed", why: expect.stringContaining("status 202") });
  });

  it("that sends the question elsewhere is no evidence", async () => {
    answer = ({ url }, response) =>
      void (url === "/fence" ? response.writeHead(307, { location: "/other" }).end() : response.end(yes));
    expect(await ask()).toMatchObject({ kind: "failed", why: expect.stringContaining("cannot be reached") });
  });

  it("that is silent is no evidence", async () => {
    answer = () => undefined;
    expect(await ask(200)).toEqual({ kind: "failed", why: "no answer in time" });
  });
});
